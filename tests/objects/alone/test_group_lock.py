"""The group lock: all of its values or none, beside other values; the loss of one loses all."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
import redis
from tests.objects.awaited import Stage, stage_of
from tests.objects.kinds import named

from interlock import ConfigError, ReentryError

stage = stage_of(named("group"))


async def test_the_order_of_values_does_not_matter(stage: Stage) -> None:
    """The same values in another order, or twice, are the same lock: its owner enters again."""
    client, owner = stage.client(), stage.owner()
    assert await owner.do(client.group_lock("g", ["a", "b"]).acquire)
    assert await owner.do(client.group_lock("g", iter("bab")).acquire, timeout=0)
    assert await owner.do(client.group_lock("g", ("b", "a")).hold_count) == 2


@pytest.mark.parametrize("options", [{"timeout": 0}, {"timeout": 5}, {}])
async def test_an_owner_does_not_wait_for_itself(stage: Stage, options: dict[str, Any]) -> None:
    """An acquire of a value that the same owner's other group lock holds is an error at once.

    It changes nothing.
    """
    client, owner = stage.client(), stage.owner()
    await owner.do(client.group_lock("g", ["a", "b"]).acquire)
    before = stage.redis.hgetall("g")
    with pytest.raises(ReentryError, match="one group lock"):
        await owner.do(client.group_lock("g", ["b", "c"]).acquire, **options)
    assert stage.redis.hgetall("g") == before
    assert await owner.do(client.group_lock("g", ["c"]).acquire, timeout=0)


async def test_a_waiter_waits_for_its_values_only(stage: Stage) -> None:
    """A waiter for one value gets it once it is free.

    It does not matter how long other values of the group are held or waited for.
    """
    client = stage.client()
    owners = [stage.owner() for _ in range(4)]
    first, second = client.group_lock("g", ["a"]), client.group_lock("g", ["b"])
    await owners[0].do(first.acquire)
    await owners[1].do(second.acquire)
    waiting = asyncio.create_task(owners[2].do(client.group_lock("g", ["a"]).acquire))
    await stage.waits()
    behind = asyncio.create_task(owners[3].do(client.group_lock("g", ["b"]).acquire))
    await stage.waits(2)
    await owners[1].do(second.release)
    assert await asyncio.wait_for(behind, 20)
    assert not waiting.done()
    await owners[0].do(first.release)
    assert await asyncio.wait_for(waiting, 20)


@pytest.mark.parametrize(
    ("values", "error"),
    [
        ("abc", TypeError),
        ([], ConfigError),
        ([1], TypeError),
        ([b"a"], TypeError),
        (["a", None], TypeError),
        (["\ud800"], ConfigError),
    ],
)
async def test_bad_values(stage: Stage, values: Any, error: type[Exception]) -> None:
    """Values of a wrong kind are refused when the lock is made; an empty string is a value."""
    client = stage.client()
    with pytest.raises(error):
        client.group_lock("g", values)
    assert client.group_lock("g", [""]).name == "g"


# What Redisson calls the values "a", "order:1" and "42" (tests/interop/fixtures/highwayhash.jsonl).
A, ORDER, ANSWER = "qwvAS12pR0CgRitaypEjUw", "VohkkMHNiudvq57uOYf+SQ", "RE0IojEvPTY8Dofe3IkBNA"
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


async def test_what_a_dead_holder_left_goes_when_it_is_taken(stage: Stage) -> None:
    """An expired value is free although its hash lives on; taking it removes the old fields."""
    lock, owner, server = stage.client().group_lock("stock", ["a"]), stage.owner(), stage.redis
    _java_takes(server, A, 1.5)
    assert not await owner.do(lock.acquire, timeout=0)
    assert await owner.do(lock.acquire, timeout=20)
    _taken(server, (await owner.do(lambda: lock.hold)).holder, 1, 30_000, A)
