"""A key that something else uses: what each object that is no lock says of it, on both faces.

Locks have such cases of their own: ``tests/objects/test_input.py``.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import pytest
import redis
from tests.objects.awaited import Face, Stage
from tests.objects.kinds import Kind

from interlock import ConfigError, WrongTypeError


@dataclass(frozen=True)
class Stored(Kind):
    """An object that is stored under a key.

    Attributes:
        key: where ``name`` is stored.
        calls: what raises an error, from the object.
        notes: pattern of the keys that these calls may leave for a while.
    """

    key: str = "name"
    calls: Callable[[Any], list[Callable[[], Any]]] = lambda it: []
    notes: str = "none"


STORED = [
    Stored(
        "semaphore",
        lambda client, name: client.semaphore(name),
        calls=lambda it: [
            it.acquire,
            it.release,
            it.release_if_exists,
            it.drain_permits,
            it.available_permits,
            lambda: it.add_permits(1),
            lambda: it.try_set_permits(1),
        ],
        notes="redisson_unlock_latch:{name}:*",
    ),
    Stored(
        "leased",
        lambda client, name: client.leased_semaphore(name),
        calls=lambda it: [
            it.acquire,
            it.permits,
            lambda: it.set_permits(2),
            lambda: it.add_permits(2),
        ],
    ),
    Stored(
        "latch",
        lambda client, name: client.count_down_latch(name),
        calls=lambda it: [
            it.count,
            it.wait,
            it.count_down,
            it.delete,
            lambda: it.try_set_count(1),
        ],
        notes="redisson_unlock_latch:{name}:*",
    ),
    Stored(
        "event",
        lambda client, name: client.event(name),
        key="interlock_event:{name}",
        calls=lambda it: [it.set, it.clear, it.is_set, it.wait],
    ),
    Stored(
        "barrier",
        lambda client, name: client.barrier(name, 2),
        key="interlock_barrier:{name}",
        calls=lambda it: [it.wait, it.abort, it.reset],
    ),
]


@pytest.fixture(params=STORED, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Stored:
    """Give each object in turn."""
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
async def stage(
    face: Face, kind: Stored, loaded: redis.Redis, redis_url: str, patient: None
) -> AsyncIterator[Stage]:
    """Give each of them on each face in turn."""
    set_up = Stage(face, kind, redis_url, loaded)
    yield set_up
    await set_up.end()


@pytest.mark.parametrize("value", ["string", "list"])
async def test_a_name_in_use_by_something_else(stage: Stage, kind: Stored, value: str) -> None:
    """Every call raises WrongTypeError, which tells what was found, and leaves the key alone."""
    owner, it = stage.owner(), stage.lock(stage.client())
    if value == "string":
        stage.redis.set(kind.key, "a text")
    else:
        stage.redis.rpush(kind.key, "a")
    before = stage.redis.dump(kind.key)
    for call in kind.calls(it):
        with pytest.raises(WrongTypeError, match=f"is a {value}"):
            await owner.do(call)
    assert stage.redis.dump(kind.key) == before
    assert stage.left_behind() == {kind.key, *map(bytes.decode, stage.redis.keys(kind.notes))}


async def test_bad_timeouts(face: Face, redis_url: str, redis_client: redis.Redis) -> None:
    """Time-outs are checked before anything is sent."""
    client, owner = face.module.connect(redis_url), face.owner()
    for wait in (
        client.event("name").wait,
        client.count_down_latch("name").wait,
        client.semaphore("name").acquire,
        client.leased_semaphore("name").try_acquire,
        client.barrier("name", 2).wait,
    ):
        for timeout in (-2, float("nan"), "1"):
            with pytest.raises(ConfigError, match="timeout must be"):
                await owner.do(wait, timeout=timeout)
    assert redis_client.keys() == []
    await owner.do(client.close)
    await owner.end()
