"""Fixtures of the read/write lock's tests: both faces on a real server, and the wire format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import READ, Kind, stage_of
from tests.read_write.wire import Wire

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis

READ_WRITE = Kind(
    "read-write", lambda client, name, **options: client.read_write_lock(name, **options)
)

rw = stage_of(READ_WRITE)
stage = stage_of(READ)


@pytest.fixture
def wire(loaded: redis.Redis) -> Iterator[Wire]:
    """Give the lock as it is on the server, and Redisson's side of it."""
    watched = Wire(loaded)
    yield watched
    watched.close()
