"""The wire: the hash, its TTL and the messages of each operation, byte for byte as Redisson's."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from tests.lock.lock_like import until
from tests.support.cards import is_card, waited_channels

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage

# What Redisson calls the values "a", "order:1" and "42" (tests/interop/fixtures/highwayhash.jsonl).
A, ORDER, ANSWER = "qwvAS12pR0CgRitaypEjUw", "VohkkMHNiudvq57uOYf+SQ", "RE0IojEvPTY8Dofe3IkBNA"
CHANNEL = "redisson_lock__channel:{stock}"
JAVA = "2f5ca6ef-60f2-4fd7-9a8c-5ad1e9f8a0ff:38"
JUST = 20_000
"""Milliseconds: less than this is gone of a lease that was taken just now."""


def _taken(server: redis.Redis, holder: str, depth: int, lease: int, *fields: str) -> None:
    """Check that *fields*, and nothing else, are held by *holder*."""
    now = round(time.time() * 1000)
    found = {field.decode(): value.decode() for field, value in server.hgetall("stock").items()}
    for field in fields:
        assert found.pop(field) == holder
        assert found.pop(f"{field}:{holder}:lock_count") == str(depth)
        assert lease - JUST < int(found.pop(f"{field}:{holder}:expire_time")) - now <= lease
    assert found == {}


def _java_takes(server: redis.Redis, field: str, seconds: float) -> None:
    expires = round((time.time() + seconds) * 1000)
    names = {f"{field}:{JAVA}:expire_time": expires, f"{field}:{JAVA}:lock_count": 1}
    server.hset("stock", mapping={field: JAVA, **names})
    server.pexpire("stock", 60_000)


async def test_other_values_are_left_alone(stage: Stage) -> None:
    """Two holds of different values share the hash; neither changes the other's fields.

    The longer TTL stays too.
    """
    client, server, a, b = stage.client(), stage.redis, stage.owner(), stage.owner()
    mine, theirs = client.group_lock("stock", ["a"]), client.group_lock("stock", ["42"])
    await a.do(mine.acquire, lease=60)
    await b.do(theirs.acquire, lease=5)
    holder = (await a.do(lambda: mine.hold)).holder
    assert server.hlen("stock") == 6
    assert server.pttl("stock") > 5_000
    assert await b.do(theirs.force_release)
    _taken(server, holder, 1, 60_000, A)
    assert await a.do(mine.owned)
    assert (await a.do(lambda: mine.hold)).valid
    await a.do(mine.release)
    keys = [key for key in server.scan_iter() if not is_card(key)]
    assert [key for key in keys if not key.startswith(b"interlock_forced:")] == []


async def test_redissons_hold_is_understood(stage: Stage) -> None:
    """Values that Java holds are refused for Java's lease, and free at once with its message."""
    client, owner, server = stage.client(), stage.owner(), stage.redis
    lock = client.group_lock("stock", ["a", "42"])
    _java_takes(server, A, 60)
    assert await owner.do(lock.locked)
    assert 40 < await owner.do(lock.remaining) <= 60
    assert not await owner.do(lock.acquire, timeout=0.05)
    waiting = asyncio.create_task(owner.do(lock.acquire))
    await until(lambda: waited_channels(server) == [CHANNEL], 5, "it subscribed")
    server.hdel(
        "stock", *[A + part for part in ("", f":{JAVA}:expire_time", f":{JAVA}:lock_count")]
    )
    server.publish(CHANNEL, "0")
    assert await asyncio.wait_for(waiting, 20)
    _taken(server, (await owner.do(lambda: lock.hold)).holder, 1, 30_000, A, ANSWER)


async def test_what_a_dead_holder_left_goes_when_it_is_taken(stage: Stage) -> None:
    """An expired value is free although its hash lives on; taking it removes the old fields."""
    lock, owner, server = stage.client().group_lock("stock", ["a"]), stage.owner(), stage.redis
    _java_takes(server, A, 1.5)
    assert not await owner.do(lock.acquire, timeout=0)
    assert await owner.do(lock.acquire, timeout=20)
    _taken(server, (await owner.do(lambda: lock.hold)).holder, 1, 30_000, A)
