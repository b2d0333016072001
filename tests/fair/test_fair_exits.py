"""Whichever way a waiter goes, its place goes with it, and the next one is told."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.fair.places import LOCK, Places
from tests.lock.lock_like import until
from tests.support.proxy import command, drop_reply, drop_request
from tests.support.servers import wait_until

import interlock
import interlock.asyncio
from interlock import ServerUnavailableError

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage
    from tests.support.proxy import Action, FaultProxy


async def test_the_first_one_gives_up_at_a_free_lock(fair: Stage) -> None:
    """When the first waiter gives up though the lock is free, the next one has it at once."""
    wire, client = Places(fair.redis), fair.client()
    wire.has("gone")
    first = asyncio.create_task(fair.owner().do(client.fair_lock(LOCK).acquire, timeout=2))
    await until(lambda: len(wire.waiting) == 1, 5, "the first waits")
    second = asyncio.create_task(fair.owner().do(client.fair_lock(LOCK).acquire))
    await until(lambda: len(wire.waiting) == 2, 5, "the second waits")
    with wire.told() as messages:
        assert not await first
        fair.redis.delete(LOCK)
        # The lock became free without a word, and the second one is now the first.
        assert await asyncio.wait_for(second, 20)
    assert messages == []
    assert wire.waiting == []


@pytest.mark.parametrize("fault", [drop_request, drop_reply])
async def test_a_waiter_that_cannot_leave_in_time(
    proxy: FaultProxy, fair: Stage, fault: Action
) -> None:
    """If leaving fails, the waiter returns in time; its place is given back in the background."""
    wire, owner = Places(fair.redis), fair.owner()
    client = fair.client(proxy.url(), fair_wait=30)
    wire.has("other")
    # A waiter leaves when its time is over, whether or not the test has had its turn meanwhile.
    proxy.on_request(command("EVALSHA", wire.leaving), fault)
    assert not await asyncio.wait_for(owner.do(client.fair_lock(LOCK).acquire, timeout=2), 20)
    assert proxy.fired, "it stood in the queue"
    proxy.clear_rules()
    await until(lambda: not wire.waiting and not wire.left, 5, "its place is given back")


async def test_an_unreachable_server(proxy: FaultProxy, fair: Stage) -> None:
    """A waiter that reaches no server fails; its place is given back when it reaches one again."""
    wire, owner = Places(fair.redis), fair.owner()
    client = fair.client(proxy.url(), fair_wait=30, outage_timeout=0.6)
    wire.has("other")
    waiting = asyncio.create_task(owner.do(client.fair_lock(LOCK).acquire))
    await until(lambda: len(wire.waiting) == 1, 5, "it waits")
    proxy.stop_accepting()
    proxy.disconnect()
    with pytest.raises(ServerUnavailableError):
        await asyncio.wait_for(waiting, 20)
    assert len(wire.waiting) == 1
    proxy.start_accepting()
    await until(lambda: not wire.waiting and not wire.left, 10, "its place is given back")


def test_the_owner_comes_back_after_giving_up(redis_url: str, redis_client: redis.Redis) -> None:
    """An owner that gave up and asks again at once has a new place.

    Nothing that is still under way can remove the new place.
    """
    wire = Places(redis_client)
    with interlock.connect(redis_url) as client:
        wire.has("other")
        lock, seen = client.fair_lock(LOCK), set()
        for number in range(3):
            watching = threading.Thread(target=_note_next, args=(wire, seen, number + 1))
            watching.start()
            assert not lock.acquire(timeout=1)
            watching.join()
            assert wire.waiting == []
        assert len(seen) == 3
        wire.release("other")
        started = time.monotonic()
        assert lock.acquire(timeout=5)
        assert time.monotonic() - started < 3
        lock.release()


def _note_next(wire: Places, seen: set[str], count: int) -> None:
    """Add who waits to *seen* until those are *count*."""

    def noted() -> bool:
        seen.update(wire.waiting)
        return len(seen) == count

    wait_until(noted, 10, "another one waits")
