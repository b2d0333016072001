"""The wire of a leased semaphore: what Java writes, reads and hears, byte for byte."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import until

from interlock import NotHeldError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy

CHANNEL = "redisson_sc:{name}"
PERMANENT = 922337203685477
JAVAS = bytes(range(240, 256))
"""The id of a permit that a Java process has."""


async def test_leased_is_two_round_trips(proxy: FaultProxy, leased: Stage) -> None:
    """Acquire and release of permits with leases are one EVALSHA each, however many permits."""
    owner, semaphore = leased.owner(), leased.lock(leased.client(proxy.url(), card=False))
    await owner.do(semaphore.try_set_permits, 9)
    proxy.clear_record()
    for number in (1, 9):
        permit = await owner.do(semaphore.acquire, number)
        await owner.do(semaphore.release, permit)
    assert [request.args[0] for request in proxy.record] == [b"EVALSHA"] * 4


async def test_expired_permits_of_java_come_back(leased: Stage) -> None:
    """Any question takes back expired permits of all holders and announces the new number.

    Permanent permits stay.
    """
    owner, semaphore = leased.owner(), leased.lock(leased.client())
    leased.redis.set("name", 0)
    now = int(leased.redis.time()[0] * 1000)
    leased.redis.zadd("{name}:timeout", {JAVAS: now - 5, b"p" * 16: PERMANENT, b"q" * 16: now - 1})
    with leased.redis.pubsub() as heard:
        heard.subscribe(CHANNEL)
        assert await owner.do(semaphore.available_permits) == 2
        messages: list[Any] = []
        await until(
            lambda: messages.append(heard.get_message()) or len([m for m in messages if m]) == 2,
            5,
            "the message came",
        )
    assert [each["data"] for each in messages if each] == [1, b"2"]
    assert leased.redis.zrange("{name}:timeout", 0, -1) == [b"p" * 16]
    assert await owner.do(semaphore.acquired_permits) == 1
    assert await owner.do(semaphore.permits) == 3


async def test_javas_permits_are_understood(leased: Stage) -> None:
    """A permit that Java holds can be released and prolonged by its id, unless it has expired."""
    owner, semaphore = leased.owner(), leased.lock(leased.client())
    now = int(leased.redis.time()[0] * 1000)
    leased.redis.set("name", 0)
    leased.redis.zadd(
        "{name}:timeout", {JAVAS: now + 50_000, b"p" * 16: PERMANENT, b"q" * 16: now - 1}
    )
    await owner.do(semaphore.extend, JAVAS.hex(), 60)
    assert 58_000 < leased.redis.zscore("{name}:timeout", JAVAS) - now < 65_000
    await owner.do(semaphore.release, JAVAS.hex())
    await owner.do(semaphore.release, (b"p" * 16).hex())
    with pytest.raises(NotHeldError):
        await owner.do(semaphore.release, (b"q" * 16).hex())
    assert leased.redis.get("name") == b"3"
    assert leased.redis.exists("{name}:timeout") == 0


async def test_a_waiter_looks_when_javas_lease_ends(leased: Stage) -> None:
    """Without message or poll, a waiter gets the permit when the lease of a dead holder ends."""
    owner, semaphore = leased.owner(), leased.lock(leased.client())
    leased.redis.set("name", 0)
    started = time.monotonic()
    seconds, micros = leased.redis.time()
    leased.redis.zadd("{name}:timeout", {JAVAS: seconds * 1000 + micros // 1000 + 700})
    assert await owner.do(semaphore.acquire)
    assert 0.69 < time.monotonic() - started < 5


async def test_the_leases_have_the_ttl_of_the_number(leased: Stage) -> None:
    """The zset lives as long as a number with a TTL does, as it does for Java."""
    owner, semaphore = leased.owner(), leased.lock(leased.client())
    leased.redis.set("name", 3, ex=1000)
    await owner.do(semaphore.acquire)
    assert 900 < leased.redis.ttl("{name}:timeout") <= 1000
