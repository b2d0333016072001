"""Names that are keys of other objects: what is there stays, or is changed as a name can."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.faces.face_calls import call, told

import interlock

if TYPE_CHECKING:
    import redis
    from tests.objects.awaited import Face


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
