"""At most n at once: blocks, calls, numbers that change, on both faces."""

from __future__ import annotations

import asyncio
import contextlib
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import Kind, stage_of

from interlock import AcquireTimeoutError, ConfigError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage

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


async def test_at_most_n_calls_run(stage: Stage) -> None:
    """Of many decorated calls of two clients at most n run, and all of them do in the end."""
    running, most, done = 0, 0, 0

    async def work(model: str) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)  # the others come meanwhile
        running -= 1
        done += 1

    loop = asyncio.get_running_loop()

    def work_in_thread(model: str) -> None:
        asyncio.run_coroutine_threadsafe(work(model), loop).result()

    function = work if stage.face.is_async else work_in_thread
    clients = [stage.client(), stage.client()]
    calls = [stage.lock(client, "{model}", n=3)(function) for client in clients * 6]
    await asyncio.gather(*(stage.owner().do(call, model="name") for call in calls))
    assert (most, done) == (3, 12)
    assert free(stage, 3) == 3


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
