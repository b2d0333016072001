"""Fixtures of the semaphore tests: both faces on a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import Face, Kind, Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis

PLAIN = Kind("semaphore", lambda client, name, **options: client.semaphore(name, **options))
LEASED = Kind("leased", lambda client, name, **options: client.leased_semaphore(name, **options))


@pytest.fixture
async def plain(
    face: Face, loaded: redis.Redis, redis_url: str, patient: None
) -> AsyncIterator[Stage]:
    """Give the plain semaphore on each face in turn."""
    set_up = Stage(face, PLAIN, redis_url, loaded)
    yield set_up
    await set_up.end()


@pytest.fixture
async def leased(
    face: Face, loaded: redis.Redis, redis_url: str, patient: None
) -> AsyncIterator[Stage]:
    """Give the leased semaphore on each face in turn."""
    set_up = Stage(face, LEASED, redis_url, loaded)
    yield set_up
    await set_up.end()
