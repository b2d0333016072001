"""Fixtures of the fair lock's tests: both faces on a real server, and the lock on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fair.places import Places
from tests.lock.lock_like import Face, Kind, Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis

FAIR = Kind("fair", lambda client, name, **options: client.fair_lock(name, **options))


@pytest.fixture
async def fair(
    face: Face, loaded: redis.Redis, redis_url: str, patient: None
) -> AsyncIterator[Stage]:
    """Give the fair lock on each face in turn."""
    set_up = Stage(face, FAIR, redis_url, loaded)
    yield set_up
    await set_up.end()


@pytest.fixture
def places(redis_client: redis.Redis) -> Places:
    """Give the fair lock ``orders`` as it is on the wire."""
    return Places(redis_client)
