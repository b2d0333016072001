"""The wire: what Java writes, reads and hears, byte for byte, and how little of it there is."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import resting, until
from tests.support.cards import own_keys
from tests.support.servers import wait_until

import interlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy


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


LEASED_QUEUE = "interlock_leased_queue:{name}"
CHANNEL = "redisson_sc:{name}"
PROMPT = 10
"""Seconds: far below the poll cap of these clients."""


@pytest.fixture
def giver(redis_url: str, redis_client: redis.Redis) -> Iterator[interlock.Semaphore]:
    """Give the semaphore, without permits, of a client that releases."""
    redis_client.set("name", 0)
    with interlock.connect(redis_url) as client:
        yield client.semaphore("name")


OLD_ACQUIRE = """
if tonumber(redis.call('get', KEYS[1]) or 0) < 1 then return 0 end
redis.call('decr', KEYS[1])
return 1
"""
OLD_RELEASE = "redis.call('publish', ARGV[1], redis.call('incr', KEYS[1]))"


def old(redis_client: redis.Redis, until: float) -> list[float]:
    """Take turns as Redisson does: hear one channel, and then ask."""
    waits: list[float] = []
    with redis_client.pubsub(ignore_subscribe_messages=True) as ears:
        ears.subscribe(CHANNEL)
        while (began := time.monotonic()) < until:
            while not redis_client.eval(OLD_ACQUIRE, 1, "name"):
                ears.get_message(timeout=5)
            waits.append(time.monotonic() - began)
            redis_client.ping()
            redis_client.eval(OLD_RELEASE, 1, "name", CHANNEL)
    return waits


def new(url: str, until: float) -> list[float]:
    """Take turns as a client of this release."""
    waits: list[float] = []
    with interlock.connect(url) as client:
        semaphore = client.semaphore("name")
        while (began := time.monotonic()) < until:
            semaphore.acquire()
            waits.append(time.monotonic() - began)
            semaphore.available_permits()
            semaphore.release()
    return waits


@pytest.mark.parametrize("permits", [1, 2])
def test_others_and_we_have_our_turns(
    redis_url: str, redis_client: redis.Redis, permits: int
) -> None:
    """Beside those who only hear one channel and ask, all get permits, and none are lost."""
    redis_client.set("name", permits)
    ends = time.monotonic() + 1.5
    with ThreadPoolExecutor(5) as pool:
        done = [pool.submit(new, redis_url, ends) for _ in range(3)]
        done += [pool.submit(old, redis_client, ends) for _ in range(2)]
        waits = [each.result(20) for each in done]
    assert all(waits), "each had a turn"
    assert redis_client.get("name") == str(permits).encode()


def test_a_leased_semaphore_shares_the_number(
    giver: interlock.Semaphore, redis_url: str, redis_client: redis.Redis
) -> None:
    """Waiters of one client for permits of either kind with one name hear of both."""
    with interlock.connect(redis_url) as client, ThreadPoolExecutor(2) as pool:
        plain, leased = client.semaphore("name"), client.leased_semaphore("name")
        waiting = [pool.submit(each.acquire) for each in (plain, leased)]
        wait_until(lambda: redis_client.zcard(LEASED_QUEUE) == 1, 5, "it stands in its queue")
        wait_until(resting(client, count=2), 10, "both hear, and have looked after that")
        giver.release(2)
        assert waiting[0].result(PROMPT)
        waiting[1].result(PROMPT).release()
    assert redis_client.get("name") == b"1"
