"""Fixtures of the lock tests: each kind of lock on each face, on a real server."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest
import redis
from tests.lock.lock_like import KINDS, Face, Kind, Stage
from tests.support.cards import own_keys
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator


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
def urls(
    request: pytest.FixtureRequest, kind: Kind, redis_client: redis.Redis, redis_url: str
) -> list[str]:
    """Give the URLs of as many empty servers as the kind takes."""
    others: list[RedisServer] = []
    if kind.servers > 1:
        others = request.getfixturevalue("other_servers")[: kind.servers - 1]
    for server in others:
        server.execute("FLUSHALL")
    return [redis_url, *(server.url() for server in others)]


@pytest.fixture
def left(kind: Kind, urls: list[str]) -> Iterator[Callable[[], set[str]]]:
    """Give what returns the keys on any server that should not be there while it is free."""
    with ExitStack() as stack:
        servers = [stack.enter_context(redis.Redis.from_url(url)) for url in urls]
        yield lambda: set[str]().union(*map(own_keys, servers)) - kind.keeps("name")


@pytest.fixture
async def stage(
    face: Face, kind: Kind, redis_client: redis.Redis, urls: list[str], patient: None
) -> AsyncIterator[Stage]:
    """Give each lock-like on each face in turn."""
    set_up = Stage(face, kind, urls[0], redis_client, urls[1:])
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
