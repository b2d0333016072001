"""Fixtures of the condition tests: both faces on a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import Face, Kind, Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis

CONDITION = Kind(
    "condition", lambda client, name, **options: client.condition(client.lock(name), **options)
)


@pytest.fixture
async def stage(
    face: Face, loaded: redis.Redis, redis_url: str, patient: None
) -> AsyncIterator[Stage]:
    """Give the condition on each face in turn, on a server that knows every script."""
    set_up = Stage(face, CONDITION, redis_url, loaded)
    yield set_up
    await set_up.end()
