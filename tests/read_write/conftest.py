"""Fixtures of the read/write lock's tests: both faces on a real server, and the wire format."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import Face, Kind, Stage
from tests.read_write.wire import Wire

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import redis

READ_WRITE = Kind(
    "read-write", lambda client, name, **options: client.read_write_lock(name, **options)
)
READ = Kind("read", lambda client, name, **options: client.read_write_lock(name, **options).read)


@pytest.fixture
async def rw(
    face: Face, loaded: redis.Redis, redis_url: str, patient: None
) -> AsyncIterator[Stage]:
    """Give the read/write lock on each face in turn."""
    set_up = Stage(face, READ_WRITE, redis_url, loaded)
    yield set_up
    await set_up.end()


@pytest.fixture
async def stage(
    face: Face, loaded: redis.Redis, redis_url: str, patient: None
) -> AsyncIterator[Stage]:
    """Give the read lock on each face in turn, for the cases of every lock-like."""
    set_up = Stage(face, READ, redis_url, loaded)
    yield set_up
    await set_up.end()


@pytest.fixture
def wire(loaded: redis.Redis) -> Iterator[Wire]:
    """Give the lock as it is on the server, and Redisson's side of it."""
    watched = Wire(loaded)
    yield watched
    watched.close()
