"""The condition on both faces: who is notified, what the lock is afterwards, and what is left."""

from __future__ import annotations

import asyncio
import threading
import time
from contextlib import suppress
from typing import Any

import pytest
import redis
from tests.core.making import make
from tests.objects.awaited import Owner, Stage, stage_of, until
from tests.objects.interrupting import Blow
from tests.objects.kinds import Kind
from tests.support.patience import wait_until
from tests.support.proxy import FaultProxy

import interlock
import interlock.asyncio
from interlock import HoldLostError, NotHeldError
from interlock._core.queue import places

stage = stage_of(
    Kind(
        "condition", lambda client, name, **options: client.condition(client.lock(name), **options)
    )
)


WAITING = "interlock_condition:{name}:"
SLACK = 20.0
"""Seconds that a busy machine may take for what is due."""


async def _wait(stage: Stage, condition: Any, **options: Any) -> tuple[Owner, asyncio.Task[Any]]:
    """Return a wait that has begun, and whose it is."""
    owner, before = stage.owner(), stage.redis.zcard(WAITING)
    await owner.do(condition.acquire)
    waiting = asyncio.create_task(owner.do(condition.wait, **options))
    await until(lambda: stage.redis.zcard(WAITING) > before, 20, "it waits")
    return owner, waiting


async def _notify(owner: Owner, condition: Any, *counts: int) -> None:
    await owner.do(condition.acquire)
    for count in counts:
        await owner.do(condition.notify, count)
    await owner.do(condition.release)


async def _woken(owner: Owner, condition: Any, waiting: asyncio.Task[Any]) -> None:
    """Check that a wait ends by a notification and holds the lock, and release that."""
    assert await asyncio.wait_for(waiting, 20) is True
    assert await owner.do(condition.lock.owned)
    await owner.do(condition.release)


@pytest.mark.parametrize("kind", ["lock", "spin_lock", "write"])
async def test_a_block_of_the_lock_is_the_conditions(redis_url: str, kind: str) -> None:
    """Who holds the lock, by whatever object, waits and notifies; blocks end what they began."""
    async with interlock.asyncio.connect(redis_url) as client:
        lock, same = make(client, kind, "name"), make(client, kind, "name")
        condition = client.condition(same)
        async with lock as outer:
            await condition.notify()
            async with condition, lock.trying() as inner:
                assert inner
                assert await condition.wait(0.05) is False
                assert await lock.hold_count() == 3
                assert not outer
            assert condition.hold
            assert condition.hold.depth == 1
        assert not await lock.locked()
        await lock.acquire()
        async with lock.hold or pytest.fail("it is held"):
            assert await condition.wait(0.05) is False
        assert not await lock.locked()


async def test_the_lock_is_needed(stage: Stage) -> None:
    """Who does not hold the lock can neither wait nor notify, and a lost lock is told."""
    owner, condition = stage.owner(), stage.lock(stage.client())
    for call in (condition.wait, condition.notify, condition.notify_all):
        with pytest.raises(NotHeldError):
            await owner.do(call)
    await owner.do(condition.acquire, lease=0.1)
    await asyncio.sleep(0.2)  # the lease of a real server ends
    for call in (condition.wait, condition.notify):
        with pytest.raises(HoldLostError):
            await owner.do(call)
    assert stage.left_behind() == set()
    for wrong in (-1, 1_000_001):
        with pytest.raises(ValueError, match="waiters"):
            await owner.do(condition.notify, wrong)
    for bad in (True, "1", 1.0):
        with pytest.raises(TypeError, match="waiters"):
            await owner.do(condition.notify, bad)
    with pytest.raises(ValueError, match="timeout"):
        await owner.do(condition.wait, -2)


async def test_messages_are_not_needed(stage: Stage, proxy: FaultProxy) -> None:
    """Without any message a waiter goes on within 2 s."""
    proxy.drop_messages = True
    condition = stage.lock(stage.client(proxy.url()))
    owner, waiting = await _wait(stage, condition)
    await _notify(stage.owner(), stage.lock(stage.client()), 1)
    told = time.monotonic()
    await _woken(owner, condition, waiting)
    assert time.monotonic() - told < 2 + SLACK


async def test_an_interrupted_wait_tells_the_next_holder(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody reads the answer that names the next holder, of the same client: it starts without a look."""
    monkeypatch.setattr(places, "POLL", 60.0)
    monkeypatch.setattr(places, "LONGEST_POLL", 60.0)
    async with interlock.asyncio.connect(redis_url) as client:
        lock = client.lock("name")
        condition, begins = client.condition(lock), asyncio.Event()

        async def wait() -> None:
            async with lock:
                await begins.wait()
                await condition.wait()

        async def come_next() -> None:
            async with lock:
                pass

        async with lock:
            assert not await condition.wait(0.01)  # the server knows the script now
        waiting = asyncio.create_task(wait())
        await until(lambda: redis_client.exists("name"), 20, "it holds")
        coming = asyncio.create_task(come_next())
        await until(lambda: redis_client.zcard("interlock_queue:{name}"), 20, "another one waits")
        begins.set()
        while not redis_client.zcard(WAITING):  # noqa: ASYNC110 - the loop shall not read the answer
            await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.wait_for(coming, 2)  # before its grant ends
        with pytest.raises(asyncio.CancelledError):
            await waiting


async def test_a_lock_that_cannot_be_had_again(stage: Stage, proxy: FaultProxy) -> None:
    """When the server is away for longer than an outage may take, HoldLostError is raised."""
    client = stage.client(proxy.url(), command_timeout=0.2, outage_timeout=0.5)
    condition = stage.lock(client)
    _, waiting = await _wait(stage, condition)
    proxy.stop_accepting()
    proxy.disconnect()
    with pytest.raises(HoldLostError) as caught:
        await asyncio.wait_for(waiting, 30)
    assert isinstance(caught.value.__cause__, interlock.InterlockError)
    proxy.start_accepting()


def test_a_lock_of_the_other_face_is_refused(redis_url: str) -> None:
    """A condition takes a name or a lock of its own face, and nothing else."""
    with interlock.connect(redis_url) as client:
        other = interlock.asyncio.connect(redis_url)
        for wrong in (other.lock("a"), client.semaphore("a"), threading.Lock(), None, 5):
            with pytest.raises(TypeError, match="condition"):
                client.condition(wrong)  # type: ignore[arg-type]
        lock = client.fenced_lock("a")
        assert client.condition(lock).lock is lock
        assert client.condition(lock, name="news").name == "a:news"
        assert repr(client.condition("a")) == "<Condition 'a' of Lock 'a'>"


@pytest.mark.filterwarnings("ignore:3 members on 1 servers:UserWarning")
def test_a_lock_without_conditions_is_refused(redis_url: str) -> None:
    """The message says what was wanted and found, and what to do."""
    with interlock.connect(redis_url) as client:
        plain = [client.lock(name) for name in "abc"]
        group = client.group_lock("the name", ["one"])
        both, most = client.multi_lock(*plain), client.red_lock(*plain)
        reads = client.read_write_lock("the name").read
        for lock in (client.fair_lock("the name"), group, reads, both, most):
            with pytest.raises(interlock.ConfigError) as caught:
                client.condition(lock)
            told = str(caught.value)
            assert "needs a plain, fenced, spin or write lock, got" in told
            assert f"{lock.name!r}: make it of a client.lock" in told


@pytest.mark.rest
@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
def test_ctrl_c_anywhere_in_a_wait(redis_url: str, redis_client: redis.Redis) -> None:
    """Wherever Ctrl-C strikes in a wait, the lock is held then, and nobody waits any more."""
    with interlock.connect(redis_url, lease=8) as client:
        condition, blow = client.condition("name"), Blow(1)
        while blow.struck:
            condition.acquire()
            with suppress(KeyboardInterrupt), blow:
                condition.wait(0.001)
            assert condition.lock.owned(), f"{blow} lost the lock"
            assert condition.lock.hold_count() == 1, f"{blow} lost the depth"
            condition.release()
            assert not client.holds(), f"{blow} left a hold"
            wait_until(lambda: not redis_client.exists(WAITING), 5, f"{blow} left a waiter")
            blow = blow.next()
        assert blow.at > 100
