"""Fixtures of the latch tests: both faces on a real server."""

from __future__ import annotations

from importlib import resources
from typing import TYPE_CHECKING

import pytest

from lock.lock_like import Face, Kind, Stage

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis

LATCH = Kind("latch", lambda client, name: client.count_down_latch(name))


@pytest.fixture(params=["sync", "asyncio"])
async def stage(
    request: pytest.FixtureRequest, redis_client: redis.Redis, redis_url: str
) -> AsyncIterator[Stage]:
    """Give the latch on each face in turn, on a server that knows every script."""
    for text in resources.files("interlock._core").joinpath("lua").iterdir():
        redis_client.script_load(text.read_text())
    set_up = Stage(Face(request.param), LATCH, redis_url, redis_client)
    yield set_up
    await set_up.end()
