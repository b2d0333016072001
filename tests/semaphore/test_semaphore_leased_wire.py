"""The wire of a leased semaphore: what Java writes, reads and hears, byte for byte."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import until
from tests.semaphore.conversation import CHANNEL, commands

from interlock import NotHeldError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer

PERMANENT = 922337203685477
REMEMBERED = 42_000
"""The milliseconds for which the answer to a call is remembered, by default."""
JAVAS = bytes(range(240, 256))
"""The id of a permit that a Java process has."""


async def test_leased_is_two_round_trips(proxy: FaultProxy, leased: Stage) -> None:
    """Acquire and release of permits with leases are one EVALSHA each, however many permits."""
    owner, semaphore = leased.owner(), leased.lock(leased.client(proxy.url()))
    await owner.do(semaphore.try_set_permits, 9)
    proxy.clear_record()
    for number in (1, 9):
        permit = await owner.do(semaphore.acquire, number)
        await owner.do(semaphore.release, permit)
    assert [request.args[0] for request in proxy.record] == [b"EVALSHA"] * 4


async def test_the_leased_ones_keys_are_redissons(leased: Stage) -> None:
    """The number is a string without TTL; a zset has each id's 16 bytes and its end.

    The end is in milliseconds by the server's clock.
    """
    owner, semaphore = leased.owner(), leased.lock(leased.client())
    await owner.do(semaphore.try_set_permits, 5)
    seconds, micros = leased.redis.time()
    now = seconds * 1000 + micros // 1000
    one = await owner.do(semaphore.acquire)
    two = await owner.do(semaphore.acquire, 2, lease=60)
    assert leased.redis.get("name") == b"2"
    scores = dict(leased.redis.zrange("{name}:timeout", 0, -1, withscores=True))
    assert scores.keys() == {bytes.fromhex(each) for each in (*one.ids, *two.ids)}
    assert 0 <= scores[bytes.fromhex(one.ids[0])] - now - 30_000 < 5000
    assert all(0 <= scores[bytes.fromhex(each)] - now - 60_000 < 5000 for each in two.ids)
    assert leased.redis.pttl("{name}:timeout") == -1
    await owner.do(semaphore.update_lease, one, 90)
    assert 0 <= leased.redis.zscore("{name}:timeout", bytes.fromhex(one.ids[0])) - now - 90e3 < 5e3
    await owner.do(one.release)
    await owner.do(two.release)
    assert {key.decode().rpartition(":")[0] for key in leased.redis.scan_iter()} == {
        "",
        "interlock_request:{name}",
        "redisson_unlock_latch:{name}",
    }
    (request,) = leased.redis.scan_iter("interlock_request:*")
    assert 0 < leased.redis.pttl(request) <= REMEMBERED


async def test_what_is_announced_of_leased_permits(leased: Stage, server: RedisServer) -> None:
    """A release of one permit announces the new value; a release of several, their number.

    Setting and adding announce the number that was given.
    """
    owner, semaphore = leased.owner(), leased.lock(leased.client())
    await owner.do(semaphore.permits)
    permits: list[Any] = []

    async def conversation() -> None:
        await owner.do(semaphore.try_set_permits, 4)
        permits.append(await owner.do(semaphore.acquire))
        permits.append(await owner.do(semaphore.acquire, 2))
        await owner.do(permits[0].release)
        await owner.do(permits[1].release)
        await owner.do(semaphore.add_permits, 2)
        await owner.do(semaphore.add_permits, -1)
        await owner.do(semaphore.set_permits, 9)
        await owner.do(semaphore.set_permits, 9)

    heard = await commands(server, leased.redis, conversation)
    assert [line for line in heard if line.startswith("publish")] == [
        f"publish {CHANNEL} {number}" for number in (4, 2, 2, 2, 9)
    ]
    changes = [line for line in heard if line.startswith(("set", "incrby", "decrby"))]
    remembered = f"set interlock_request:{{name}}:<id> 1 px {REMEMBERED}"
    assert [re.sub("[0-9a-f]{32}", "<id>", line) for line in changes] == [
        "set name 4 nx",
        "decrby name 1",
        "decrby name 2",
        "incrby name 1",
        "incrby name 2",
        "incrby name 2",
        "incrby name -1",
        "incrby name 4",
        remembered,
        remembered,
    ]


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
    await owner.do(semaphore.update_lease, JAVAS.hex(), 60)
    assert 58_000 < leased.redis.zscore("{name}:timeout", JAVAS) - now < 65_000
    await owner.do(semaphore.release, JAVAS.hex())
    await owner.do(semaphore.release, (b"p" * 16).hex())
    with pytest.raises(NotHeldError):
        await owner.do(semaphore.release, (b"q" * 16).hex())
    assert leased.redis.get("name") == b"3"
    assert leased.redis.exists("{name}:timeout") == 0


async def test_a_waiter_looks_when_javas_lease_ends(leased: Stage) -> None:
    """Without message or poll, a waiter gets the permit when the lease of a dead holder ends."""
    owner, semaphore = leased.owner(), leased.lock(leased.client(poll_cap=60))
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
