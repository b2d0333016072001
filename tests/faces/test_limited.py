"""At most n at once: blocks, calls, numbers that change, on both faces."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from tests.objects.awaited import Stage, stage_of
from tests.objects.kinds import Kind

from interlock import AcquireTimeoutError, ConfigError

stage = stage_of(
    Kind("limited", lambda client, name, n=2, **options: client.limited(name, n, **options))
)


def free(stage: Stage, n: int = 2) -> int:
    """Return how many of *n* permits are free, as the server sees it."""
    return n - int(stage.redis.zcard("interlock_limited:{name}"))


async def test_blocks_of_one_object_are_told_apart(stage: Stage) -> None:
    """Each block of one object has a permit of its own, and any owner may leave it."""
    owner, other, limit = stage.owner(), stage.owner(), stage.lock(stage.client(), timeout=0)
    async with contextlib.AsyncExitStack() as blocks:
        first = await _open(stage, owner, limit, blocks)
        second = await _open(stage, other, limit, blocks)
        assert first.ids != second.ids
        assert free(stage) == 0
        assert await owner.do(limit.running) == 2
        with pytest.raises(AcquireTimeoutError):
            await owner.do(stage.face.enter, limit)
    assert free(stage) == 2
    assert await owner.do(limit.available) == 2


async def _open(stage: Stage, owner: Any, limit: Any, blocks: contextlib.AsyncExitStack) -> Any:
    # A with statement: the exit is looked up first. It is left by another owner.
    leave = limit.__aexit__ if stage.face.is_async else limit.__exit__
    permit = await owner.do(stage.face.enter, limit)
    blocks.push_async_callback(stage.owner().do, leave, None, None, None)
    return permit


async def test_mistakes(stage: Stage) -> None:
    """Wrong arguments raise when the limit is made or entered, and change nothing."""
    client = stage.client()
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="must be 1 to"):
            client.limited("name", wrong)
    with pytest.raises(TypeError):
        client.limited("name", 1.5)
    with pytest.raises(TypeError, match="a name must be a str"):
        client.limited(test_mistakes, 1)
    with pytest.raises(ConfigError):
        client.limited("name", 1, lease=-1)
    with pytest.raises(ValueError, match="timeout"):
        client.limited("name", 1, timeout=-3)
    with pytest.raises(ConfigError, match="model"):
        await stage.owner().do(stage.face.enter, client.limited("{model}", 1))
    assert not stage.redis.keys("*limited*")
