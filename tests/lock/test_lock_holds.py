"""A hold, its loss, and the ``with`` statement, for every lock-like on both faces."""

from __future__ import annotations

import asyncio
import gc
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import grows, until

from interlock._core.model.hold import Hold

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage


async def test_waiting_for_a_loss_again_and_again(stage: Stage) -> None:
    """A ``hold.lost.wait`` without a loss leaves nothing behind, however often it is called."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    await owner.do(lock.acquire)

    async def wait_briefly() -> None:
        hold = await owner.do(lambda: lock.hold)
        if not stage.face.is_async:
            assert not await owner.do(hold.lost.wait, 0)
            return
        with pytest.raises(asyncio.TimeoutError):
            await owner.do(asyncio.wait_for, hold.lost.wait(), 0.0001)

    await wait_briefly()
    before = _listeners()
    for _ in range(20):
        await wait_briefly()
    assert _listeners() == before
    await owner.do(lock.release)


def _listeners() -> int:
    """Return how many listeners the holds of this process have."""
    gc.collect()  # those of former tests
    holds = [each for each in gc.get_objects() if type(each) is Hold]
    return sum(len(hold.listeners or ()) for hold in holds)


async def test_a_hold_entered_again_outlives_its_first_handle(plain: Stage) -> None:
    """A hold that was entered again is renewed, even if the handle of its first entry is gone."""
    client, owner = plain.client(renewed="soon"), plain.owner()
    lock = client.lock("name")
    tried = client.try_lock("name", timeout=5)
    first = await owner.do(plain.face.enter, tried)
    await owner.do(lock.acquire)
    await owner.do(first.release)
    del first, tried
    gc.collect()
    await until(grows(plain.redis, "name"), 10, "it is renewed")
    assert await owner.do(lock.hold_count) == 1
    await owner.do(lock.release)
