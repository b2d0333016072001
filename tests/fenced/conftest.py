"""Fixtures of the fenced lock's tests: both faces on a real server that knows every script."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import KINDS, Face, Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis

FENCED = next(kind for kind in KINDS if kind.name == "fenced")


@pytest.fixture
async def stage(
    face: Face, loaded: redis.Redis, redis_url: str, patient: None
) -> AsyncIterator[Stage]:
    """Give the fenced lock on each face in turn."""
    set_up = Stage(face, FENCED, redis_url, loaded)
    yield set_up
    await set_up.end()
