"""Blocks by `trying` on a plain semaphore, and by a lock of each face."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    import redis


def test_permits_of_a_plain_semaphore(redis_url: str, redis_client: redis.Redis) -> None:
    """A block gives back the permits that it took, once, also if they were given back inside."""
    with interlock.connect(redis_url) as client:
        semaphore = client.semaphore("name")
        semaphore.try_set_permits(2)
        with semaphore.trying(2) as permits:
            assert (bool(permits), permits.n) == (True, 2)
            with semaphore.trying() as none:
                assert not none
            assert semaphore.available_permits() == 0
            permits.release()
            assert not permits
        assert semaphore.available_permits() == 2
    assert redis_client.get("name") == b"2"


async def test_both_faces_refuse_the_other_statement(redis_url: str) -> None:
    """A sync block wants `with`, and one of asyncio wants `async with`."""
    with interlock.connect(redis_url) as client, pytest.raises(TypeError, match="use `with`"):
        mistaken: Any = client.lock("name").trying()
        async with mistaken:
            pass
    async with interlock.asyncio.connect(redis_url) as other:
        trying: Any = other.lock("name").trying()
        with pytest.raises(TypeError, match="use `async with`"), trying:
            pass
        async with other.lock("name").trying() as hold, other.semaphore("none").trying() as none:
            assert hold
            assert not none
