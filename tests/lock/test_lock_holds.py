"""A hold, its loss, and the ``with`` statement, for every lock-like on both faces."""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import grows, until
from tests.support.proxy import FaultProxy, command, delay_reply

from interlock import HoldLostError, NotHeldError
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


async def test_a_hold_released_inside_leaves_the_outer_one(plain: Stage) -> None:
    """Leaving the block of an inner hold that was released by hand leaves the outer one held."""
    lock, owner = plain.client().lock("name"), plain.owner()
    stack: Any = contextlib.AsyncExitStack() if plain.face.is_async else contextlib.ExitStack()
    outer = await owner.do(plain.face.enter, lock)
    inner = await owner.do(
        stack.enter_async_context if plain.face.is_async else stack.enter_context, lock
    )
    await owner.do(inner.release)
    await owner.do(stack.aclose if plain.face.is_async else stack.close)
    assert outer.depth == 1
    await owner.do(plain.face.leave, lock)
    assert plain.left_behind() == set()


async def test_a_lock_released_inside_its_block_leaves_quietly(stage: Stage) -> None:
    """What a block acquired may be released by its lock inside; leaving then releases nothing."""
    lock, owner, other = stage.lock(stage.client()), stage.owner(), stage.owner()
    theirs = stage.lock(stage.client())
    stack: Any = contextlib.AsyncExitStack() if stage.face.is_async else contextlib.ExitStack()
    await owner.do(stack.enter_async_context if stage.face.is_async else stack.enter_context, lock)
    await owner.do(lock.release)
    assert await other.do(theirs.acquire, timeout=5)
    await owner.do(stack.aclose if stage.face.is_async else stack.close)
    assert await other.do(theirs.owned)
    with pytest.raises(NotHeldError):
        await owner.do(lock.release)
    await other.do(theirs.release)
    assert stage.left_behind() == set()


async def test_leaving_a_lost_hold_raises(plain: Stage) -> None:
    """Leaving a lost hold's block raises HoldLostError, or adds a note to the body's error."""
    lock, owner = plain.client(renewed="soon").lock("name"), plain.owner()
    for error in (None, LookupError("the body's own")):
        assert await owner.do(lock.acquire)
        hold = await owner.do(lambda: lock.hold)
        await owner.do(plain.face.enter, hold)
        await owner.do(plain.client().lock("name").force_release)
        await until(hold.lost.is_set, 5, "the hold was told of its loss")
        if error is None:
            with pytest.raises(HoldLostError):
                await owner.do(plain.face.leave, hold)
        else:
            await owner.do(plain.face.leave, hold, error)
            assert any("lost" in note for note in error.__notes__)


async def test_a_release_that_takes_long_is_no_loss(proxy: FaultProxy, plain: Stage) -> None:
    """If the reply to a release comes after the lease, the release has succeeded all the same."""
    owner, lock = plain.owner(), plain.client(proxy.url()).lock("name")
    await owner.do(lock.acquire)
    await owner.do(lock.release)  # from now on the server knows the scripts
    await owner.do(lock.acquire, lease=1)
    proxy.on_request(command("EVALSHA"), delay_reply(1.5))
    await owner.do(lock.release)
    assert plain.left_behind() == set()


async def test_an_entry_takes_nothing_that_was_lost(plain: Stage) -> None:
    """An entry that finds no lock on the server raises, though nobody has it; it takes nothing."""
    owner, lock = plain.owner(), plain.client().lock("name")
    assert await owner.do(lock.acquire)
    assert plain.redis.delete("name")
    with pytest.raises(HoldLostError):
        await owner.do(lock.acquire)
    assert plain.left_behind() == set()


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
