"""The wire: what Java writes, reads and hears, byte for byte, and how little of it there is."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import until
from tests.support.cards import own_keys

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy

CHANNEL = "redisson_sc:{name}"
ALL = "interlock_semaphore_total:{name}"


@pytest.mark.filterwarnings("ignore:semaphore .* are wanted together:interlock.MisuseWarning")
async def test_latches_do_not_pile_up(plain: Stage) -> None:
    """However many calls one object makes, the latch of one of them is left, and it expires."""
    client = plain.client(command_timeout=0.6, outage_timeout=0.6)
    owner, semaphore = plain.owner(), plain.lock(client)
    await owner.do(semaphore.try_set_permits, 2)
    for _ in range(50):
        await owner.do(semaphore.acquire)
        await owner.do(semaphore.release)
        await owner.do(semaphore.add_permits, 1)
        await owner.do(semaphore.try_set_permits, 9)
        await owner.do(semaphore.acquire, 99, blocking=False)
        await owner.do(semaphore.acquire)
    assert len(own_keys(plain.redis)) <= 3
    await until(lambda: own_keys(plain.redis) == {"name", ALL}, 10, "the last latch has expired")


async def test_uncontended_is_two_round_trips(proxy: FaultProxy, plain: Stage) -> None:
    """Acquire and release are one EVALSHA each, and a single try in vain is one."""
    owner, semaphore = plain.owner(), plain.lock(plain.client(proxy.url(), card=False))
    await owner.do(semaphore.try_set_permits, 1)
    proxy.clear_record()
    await owner.do(semaphore.acquire)
    await owner.do(semaphore.release)
    await owner.do(semaphore.acquire, timeout=5)
    assert not await owner.do(semaphore.acquire, timeout=0)
    assert [request.args[0] for request in proxy.record] == [b"EVALSHA"] * 4


async def test_a_ttl_stays(plain: Stage) -> None:
    """A number that Java gave a TTL keeps it, whatever is taken, given, added or drained."""
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    plain.redis.set("name", 3, ex=1000)
    await owner.do(semaphore.acquire)
    await owner.do(semaphore.release)
    await owner.do(semaphore.add_permits, 2)
    await owner.do(semaphore.drain_permits)
    assert 900 < plain.redis.ttl("name") <= 1000


@pytest.mark.parametrize("what", ["release", "set", "add"])
async def test_java_wakes_a_waiter(plain: Stage, what: str) -> None:
    """What Java writes and announces wakes a waiter of ours at once."""
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    waiting = asyncio.create_task(owner.do(semaphore.acquire))
    await until(lambda: CHANNEL.encode() in plain.redis.pubsub_channels(), 5, "it waits")
    assert not waiting.done()
    plain.redis.set("name", 2) if what == "set" else plain.redis.incrby("name", 2)
    plain.redis.publish(CHANNEL, "2")
    assert await asyncio.wait_for(waiting, 20)
    assert plain.redis.get("name") == b"1"
