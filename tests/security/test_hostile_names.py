"""Names, values and owners that an attacker has chosen reach their own keys and channels only."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.faces.face_calls import call, told

import interlock

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Face

NAMES = (
    "*", "h?llo[a-z]*", "a b", "x\r\nFLUSHALL\r\n", "$7\r\nFLUSHDB", "\x00", "{", "}", "{}",
    "{other}", "redisson_lock__channel:{other}", "redisson_lock_token:{other}", "n" * 5000,
    "'); redis.call('flushall') --", "../../etc/passwd", "%s%n", "{0.__class__}",
    "\N{RIGHT-TO-LEFT OVERRIDE}evil", "\x1b[2J",
)  # fmt: skip
KINDS = ("lock", "fair_lock", "fenced_lock", "spin_lock")


def made(client: Any, kind: str, name: str) -> Any:
    """Return the lock *name* of *kind*, with an owner that is as hostile."""
    return getattr(client, kind)(name, owner=name)


@pytest.mark.parametrize("kind", KINDS)
async def test_hostile_names(
    face: Face, kind: str, redis_url: str, redis_client: redis.Redis
) -> None:
    """A lock of any name leaves other keys and locks alone, and is free after its release."""
    redis_client.set("bystander", "untouched")
    client = face.module.connect(redis_url)
    other = client.lock("other", owner="victim")
    await call(face, other.acquire)
    for name in NAMES:
        if name.startswith("redisson_"):
            continue  # keys of other objects: see below
        lock = made(client, kind, name)
        assert await call(face, lock.acquire, timeout=5), name
        assert redis_client.exists(name) == 1
        await call(face, lock.release)
        assert redis_client.exists(name) == 0
        assert other.hold.valid
    assert redis_client.get("bystander") == b"untouched"
    assert await call(face, other.hold_count) == 1
    await call(face, other.release)
    kept = {key for key in redis_client.keys("*") if not key.startswith(b"redisson_lock_token:")}
    kept -= {name.encode() for name in NAMES if kind == "fenced_lock"}
    assert kept - {b"redisson_lock_token:{other}"} == {b"bystander"}
    await told(client.close())


async def test_names_of_auxiliary_keys(
    face: Face, redis_url: str, redis_client: redis.Redis
) -> None:
    """A name that is another object's auxiliary key is refused, and what is there stays."""
    client = face.module.connect(redis_url)
    fenced = client.fenced_lock("report", owner="me")
    await call(face, fenced.acquire)
    await call(face, fenced.release)
    with pytest.raises(interlock.WrongTypeError):
        await call(face, client.lock("redisson_lock_token:{report}", owner="x").acquire)
    assert redis_client.get("redisson_lock_token:{report}") == b"1"
    await told(client.close())


async def test_names_of_keys_of_ours(face: Face, redis_url: str, redis_client: redis.Redis) -> None:
    """A name that is the key of an election blocks it, ends a term, or changes a token."""
    client = face.module.connect(redis_url)
    election = client.election("frontend")
    imitation = client.lock("interlock_election:{frontend}", owner="x")
    assert await call(face, imitation.acquire)
    assert not await call(face, election.acquire, timeout=0.1)
    await call(face, imitation.release)
    term = await call(face, election.acquire, timeout=5)
    assert term
    assert await call(face, imitation.force_release)
    assert not await call(face, election.owned)
    key = "redisson_lock_token:interlock_election:{frontend}"
    token = int(redis_client.get(key) or 0)
    await call(face, client.semaphore(key).release, 5)
    assert int(redis_client.get(key) or 0) == token + 5
    await told(client.close())


async def test_hostile_values(face: Face, redis_url: str, redis_client: redis.Redis) -> None:
    """Values of a group lock are hashed: none of them becomes a field of another one."""
    client = face.module.connect(redis_url)
    first = client.group_lock("group", NAMES, owner="a")
    assert await call(face, first.acquire)
    assert await call(face, client.group_lock("group", ["mode", "other"], owner="b").acquire, False)
    assert not await call(face, client.group_lock("group", ["*"], owner="b").acquire, False)
    await told(client.close())
    assert redis_client.keys("*") == []


async def test_errors_are_one_line(face: Face, redis_url: str) -> None:
    """A name does not write lines, or control a terminal, by the errors that quote it."""
    client = face.module.connect(redis_url)
    for name in NAMES:
        with pytest.raises(interlock.NotHeldError) as caught:
            await call(face, made(client, "lock", name).release)
        assert str(caught.value).isprintable()
        assert repr(client.lock(name, owner="x")).isprintable()
    await told(client.close())
