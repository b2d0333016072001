"""The spin lock: the plain lock's hash, no messages at all, and a wait that only tries again."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator

from tests.objects.awaited import Stage, stage_of, until
from tests.objects.kinds import named
from tests.support.cards import waited_channels
from tests.support.proxy import FaultProxy

from interlock import ConstantBackoff

stage = stage_of(named("spin"))


class Noted:
    """Pauses that are given, and how many of them were asked for."""

    def __init__(self, *pauses: float) -> None:
        self.given = 0
        self.waits = 0
        self._pauses = pauses

    def pauses(self, random: Callable[[], float]) -> Iterator[float]:
        self.waits += 1
        for pause in self._pauses:
            self.given += 1
            yield pause


async def test_a_waiter_asks_once_a_pause_and_never_subscribes(
    proxy: FaultProxy, stage: Stage
) -> None:
    """A second with pauses of 100 ms is at most eleven more tries, on one connection."""
    a, b = stage.owner(), stage.owner()
    client = stage.client(proxy.url(), card=False)
    lock = stage.lock(client, backoff=ConstantBackoff(0.1))
    await b.do(lock.locked)
    proxy.clear_record()
    await a.do(stage.lock(stage.client()).acquire)
    began = time.monotonic()
    assert not await b.do(lock.acquire, timeout=1)
    assert time.monotonic() - began >= 1
    assert set(proxy.commands) == {"EVALSHA"}
    assert 2 <= proxy.commands["EVALSHA"] <= 11
    assert len({request.connection for request in proxy.record}) == 1
    assert waited_channels(stage.redis) == []


async def test_the_deadline_is_kept_whatever_the_pause(stage: Stage) -> None:
    """A pause longer than the time left is cut short; the last try is made at the deadline."""
    a, b = stage.owner(), stage.owner()
    mine, backoff = stage.lock(stage.client()), Noted(60)
    theirs = stage.lock(stage.client(), backoff=backoff)
    await a.do(mine.acquire)
    began = time.monotonic()
    assert not await b.do(theirs.acquire, timeout=0.3)
    assert 0.3 <= time.monotonic() - began < 5
    waiting = asyncio.create_task(b.do(theirs.acquire, timeout=1))
    await until(lambda: backoff.given == 2, 10, "it has asked once more")
    await a.do(mine.release)
    assert await asyncio.wait_for(waiting, 10), "it was free at the deadline"
    await b.do(theirs.release)


async def test_pauses_of_ones_own(stage: Stage) -> None:
    """Each wait asks the back-off for new pauses; when they end, the last one is repeated."""
    a, b = stage.owner(), stage.owner()
    backoff = Noted(0.01, 0.05)
    theirs = stage.lock(stage.client(), backoff=backoff)
    await a.do(stage.lock(stage.client()).acquire)
    began = time.monotonic()
    assert not await b.do(theirs.acquire, timeout=1)
    assert not await b.do(theirs.acquire, timeout=1)
    assert time.monotonic() - began >= 2
    assert (backoff.waits, backoff.given) == (2, 4)


async def test_plain_and_spin_locks_of_one_name_exclude_each_other(stage: Stage) -> None:
    """Each waits for the other; a plain waiter hears no spin release and looks at its poll cap."""
    a, b = stage.owner(), stage.owner()
    backoff = Noted(0.02)
    spin = stage.lock(stage.client(), backoff=backoff)
    plain = stage.client().lock("name")
    await a.do(spin.acquire)
    waiting = asyncio.create_task(b.do(plain.acquire))
    await until(lambda: stage.redis.pubsub_channels() != [], 5, "the plain one subscribed")
    await a.do(spin.release)
    assert await asyncio.wait_for(waiting, 20)
    spinning = asyncio.create_task(a.do(spin.acquire))
    await until(lambda: backoff.given, 10, "it has asked")
    assert not spinning.done()
    await b.do(plain.release)
    assert await asyncio.wait_for(spinning, 20)
    await a.do(spin.release)
