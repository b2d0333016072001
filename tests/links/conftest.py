"""Fixtures of the link tests: both faces, and servers with TLS."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.objects.awaited import KINDS, Face, Stage
from tests.support.servers import RedisServer, main_binary

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import redis


@pytest.fixture
async def stage(face: Face, redis_client: redis.Redis, redis_url: str) -> AsyncIterator[Stage]:
    async with Stage(face, KINDS[0], redis_url, redis_client) as set_up:
        yield set_up


@pytest.fixture(scope="module")
def tls_server() -> Iterator[RedisServer]:
    """Give a server that speaks TLS, and wants a certificate from its clients."""
    with RedisServer(main_binary(), tls=True) as server:
        yield server
