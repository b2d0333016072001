"""Tries that were given up and sent again leave nothing behind, even if executed late."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import OF_ONE_KEY, Stage, until
from tests.support.faults import command, delay

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis
    from tests.lock.lock_like import Face, Owner
    from tests.support.proxy import FaultProxy

LATE = 2.5
"""Seconds after which the first try is executed.

A client of `PATIENCE` gives up, and the next steps end, long before that.
"""
PATIENCE = 0.3
WRITTEN = {"cmdstat_hset", "cmdstat_zadd"}
"""What the server counts when it grants something, or gives a place in a queue."""


@pytest.fixture(params=OF_ONE_KEY, ids=lambda kind: kind.name)
async def stage(
    request: pytest.FixtureRequest, face: Face, proxy: FaultProxy, loaded: redis.Redis
) -> AsyncIterator[Stage]:
    """Give each kind on each face in turn; its URL leads through the proxy."""
    set_up = Stage(face, request.param, proxy.url(), loaded)
    yield set_up
    proxy.clear_rules()
    await set_up.end()


async def _ready(stage: Stage) -> tuple[Any, Owner]:
    """Return a lock whose connection is open, and an owner for it."""
    lock, owner = stage.lock(stage.client(command_timeout=PATIENCE)), stage.owner()
    await owner.do(lock.acquire)
    await owner.do(lock.release)
    return lock, owner


async def _undone(stage: Stage) -> None:
    await until(lambda: WRITTEN & set(stage.redis.info("commandstats")), 10, "it is executed")
    await until(lambda: not stage.left_behind(), 10, "what it did is undone")


async def test_a_stray_try_of_what_was_released(stage: Stage, proxy: FaultProxy) -> None:
    """A first try is undone if it is executed after the second one's grant was released.

    The undo comes long before its lease ends.
    """
    lock, owner = await _ready(stage)
    proxy.on_request(command("EVALSHA", nth=1), delay(LATE))
    assert await owner.do(lock.acquire, timeout=20)
    await owner.do(lock.release)
    assert not stage.left_behind()
    stage.redis.config_resetstat()
    await _undone(stage)
    assert await owner.do(lock.acquire, timeout=0)
    await owner.do(lock.release)


async def test_a_stray_try_of_what_was_not_acquired(stage: Stage, proxy: FaultProxy) -> None:
    """A first try is undone if it is executed after its owner gave up and the holder left.

    The undo comes long before its lease ends.
    """
    lock, owner = await _ready(stage)
    client, other = stage.client(), stage.owner()
    reads = stage.kind.name == "read"
    rival = client.read_write_lock("name").write if reads else stage.lock(client)
    await other.do(rival.acquire)
    # Of the two clients only this one asks from here on.
    proxy.on_request(command("EVALSHA", nth=1), delay(LATE))
    assert not await owner.do(lock.acquire, timeout=1.0)
    await other.do(rival.release)
    stage.redis.config_resetstat()
    await _undone(stage)
