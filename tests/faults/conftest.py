"""Fixtures of the fault tests: both faces, behind a proxy or on a server of their own."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.objects.awaited import KINDS, Face, Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer


@pytest.fixture
async def stage(face: Face, proxy: FaultProxy, redis_client: redis.Redis) -> AsyncIterator[Stage]:
    """Give each face in turn; its URL leads through the proxy, its `redis` client does not."""
    set_up = Stage(face, KINDS[0], proxy.url(), redis_client)
    yield set_up
    proxy.clear_rules()
    await set_up.end()


@pytest.fixture
async def own(face: Face, fresh_server: RedisServer) -> AsyncIterator[Stage]:
    """Give each face in turn, on a server of the test's own.

    The test may pause, kill and restart the server, and must leave it running.
    """
    with fresh_server.client() as seen:
        async with Stage(face, KINDS[0], fresh_server.url(), seen) as set_up:
            yield set_up
