"""Fixtures of the fair lock's tests: both faces on a real server, and the lock on the wire."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fair.places import Places
from tests.lock.lock_like import Kind, stage_of

if TYPE_CHECKING:
    import redis

FAIR = Kind("fair", lambda client, name, **options: client.fair_lock(name, **options))

fair = stage_of(FAIR)


@pytest.fixture
def places(redis_client: redis.Redis) -> Places:
    """Give the fair lock ``orders`` as it is on the wire."""
    return Places(redis_client)
