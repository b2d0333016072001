"""Names and values that an attacker has chosen reach their own keys and channels only."""

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
    """Return the lock *name* of *kind*."""
    return getattr(client, kind)(name)


@pytest.mark.parametrize("kind", KINDS)
async def test_hostile_names(
    face: Face, kind: str, redis_url: str, redis_client: redis.Redis
) -> None:
    """A lock of any name leaves other keys and locks alone, and is free after its release."""
    redis_client.set("bystander", "untouched")
    client = face.module.connect(redis_url)
    owner, other = face.owner(), client.lock("other")
    await owner.do(other.acquire)
    hold = await owner.do(lambda: other.hold)
    for name in NAMES:
        if name.startswith("redisson_"):
            continue  # keys of other objects: see below
        lock = made(client, kind, name)
        assert await owner.do(lock.acquire, timeout=5), name
        assert redis_client.exists(name) == 1
        await owner.do(lock.release)
        assert redis_client.exists(name) == 0
        assert hold.valid
    assert redis_client.get("bystander") == b"untouched"
    assert await owner.do(other.hold_count) == 1
    await owner.do(other.release)
    await owner.end()
    kept = {key for key in redis_client.keys("*") if not key.startswith(b"redisson_lock_token:")}
    kept -= {name.encode() for name in NAMES if kind == "fenced_lock"}
    assert kept - {b"redisson_lock_token:{other}"} == {b"bystander"}
    await told(client.close())


async def test_names_of_auxiliary_keys(
    face: Face, redis_url: str, redis_client: redis.Redis
) -> None:
    """A name that is another object's auxiliary key is refused, and what is there stays."""
    client = face.module.connect(redis_url)
    fenced, owner = client.fenced_lock("report"), face.owner()
    await owner.do(fenced.acquire)
    await owner.do(fenced.release)
    await owner.end()
    with pytest.raises(interlock.WrongTypeError):
        await call(face, client.lock("redisson_lock_token:{report}").acquire)
    assert redis_client.get("redisson_lock_token:{report}") == b"1"
    await told(client.close())


async def test_names_of_keys_of_ours(face: Face, redis_url: str, redis_client: redis.Redis) -> None:
    """A name that is the key of an election blocks it, ends a term, or changes a token."""
    client = face.module.connect(redis_url)
    election = client.election("frontend")
    imitation, owner, other = (
        client.lock("interlock_election:{frontend}"),
        face.owner(),
        face.owner(),
    )
    assert await other.do(imitation.acquire)
    assert not await owner.do(election.acquire, timeout=0.1)
    await other.do(imitation.release)
    assert await owner.do(election.acquire, timeout=5)
    assert await other.do(imitation.force_release)
    assert not await owner.do(election.owned)
    key = "redisson_lock_token:interlock_election:{frontend}"
    token = int(redis_client.get(key) or 0)
    await call(face, client.semaphore(key).release, 5)
    assert int(redis_client.get(key) or 0) == token + 5
    for each in (owner, other):
        await each.end()
    await told(client.close())
