"""Fixtures of the lock tests: each kind of lock on each face, on a real server."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import KINDS, Face, Kind, Stage
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import redis


@pytest.fixture(params=KINDS, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Give each lock-like in turn."""
    return request.param


@pytest.fixture(scope="session")
def other_servers() -> Iterator[list[RedisServer]]:
    """Give two more servers, for kinds that take three."""
    with RedisServer() as one, RedisServer() as two:
        yield [one, two]


@pytest.fixture
async def stage(
    request: pytest.FixtureRequest,
    face: Face,
    kind: Kind,
    redis_client: redis.Redis,
    redis_url: str,
    patient: None,
) -> AsyncIterator[Stage]:
    """Give each lock-like on each face in turn."""
    others: list[RedisServer] = []
    if kind.servers > 1:
        others = request.getfixturevalue("other_servers")[: kind.servers - 1]
    for server in others:
        server.execute("FLUSHALL")
    set_up = Stage(face, kind, redis_url, redis_client, [server.url() for server in others])
    yield set_up
    await set_up.end()


@pytest.fixture
async def plain(
    face: Face, redis_client: redis.Redis, redis_url: str, patient: None
) -> AsyncIterator[Stage]:
    """Give the plain lock on each face in turn."""
    set_up = Stage(face, KINDS[0], redis_url, redis_client)
    yield set_up
    await set_up.end()
