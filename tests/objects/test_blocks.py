"""A ``with`` block releases what it took, wherever it is left, and hides no error."""

from __future__ import annotations

import contextlib
import gc
import time
from typing import Any

import pytest
from tests.objects.acts import (
    SOON,
    Block,
    exclusive,
    freed,
    held,
    in_asyncio,
    lost,
    of_kinds,
    reentrant,
    renewed,
    two,
    warned,
)
from tests.objects.stage import Stage

from interlock import AcquireTimeoutError, HoldLostError, NotHeldError


@pytest.mark.sample
@exclusive
def test_a_block_holds_and_releases(stage: Stage) -> None:
    """It uses the lock's timeout and lease, and gives the hold; a refused one names the holder."""
    clients = stage.clients()
    lock = stage.lock(*clients, lease=20, timeout=0.05)
    owner, other = stage.actor(), stage.actor()
    hold = owner.enter(lock)
    assert hold.depth == 1
    assert 5 < hold.remaining <= 20
    began = time.monotonic()
    with pytest.raises(AcquireTimeoutError) as caught:
        other.enter(lock)
    assert time.monotonic() - began >= 0.05
    assert isinstance(caught.value, TimeoutError)
    assert (caught.value.name, caught.value.timeout) == (lock.name, 0.05)
    # Of several servers any one may have been asked in time, which knows its own holder.
    assert caught.value.holder == hold.holder or stage.kind.servers > 1
    assert str(caught.value.holder) in str(caught.value)
    owner.leave(lock)
    assert not hold
    assert not stage.left()


@pytest.mark.parametrize("of", ["lock", "hold"])
def test_a_block_never_masks_its_body(stage: Stage, of: str) -> None:
    """The body's exception goes on as it is; if the hold was lost too, a note says so."""
    lock, owner = stage.lock(*stage.clients(**SOON)), stage.actor()
    error = LookupError("the body's own")

    def enter() -> tuple[Any, Any]:
        hold = owner.enter(lock) if of == "lock" else held(owner, lock, timeout=5)
        return hold, lock if of == "lock" else owner.enter(hold)

    hold, block = enter()
    assert not owner.leave(block, error), "it must not be swallowed"
    assert not hasattr(error, "__notes__")
    assert not hold
    assert not stage.left()
    hold, block = enter()
    lost(stage, hold)
    assert not owner.leave(block, error)
    assert any("lost" in note for note in error.__notes__)
    if of == "hold":
        hold, block = enter()
        lost(stage, hold)
        with pytest.raises(HoldLostError):
            owner.leave(block)
    assert owner.do(lambda: lock.hold) is None


@pytest.mark.sample
def test_a_block_that_lost_its_hold_raises(stage: Stage) -> None:
    """So does each acquire inside of it; once it is left, its owner can acquire again."""
    lock, owner = stage.lock(*stage.clients(**SOON)), stage.actor()
    lost(stage, owner.enter(lock))
    if stage.kind.reentrant:
        for _ in "12":
            with pytest.raises(HoldLostError):
                owner.do(lock.acquire)
    with pytest.raises(HoldLostError):
        owner.leave(lock)
    assert owner.do(lambda: lock.hold) is None
    assert owner.do(lock.acquire, timeout=5)
    owner.do(lock.release)
    freed(stage)


@pytest.mark.parametrize("way", [pytest.param("leave", marks=pytest.mark.sample), "close", "fail"])
def test_a_block_is_left_by_another_actor(stage: Stage, way: str) -> None:
    """A generator that is entered in one thread or task and ends in another leaves nothing."""
    lock, owner, other = stage.lock(), stage.actor(), stage.actor()
    block = Block(lock, awaits=stage.world.cancels)
    hold = owner.do(block.enter)
    with pytest.raises(NotHeldError):
        other.do(lock.release)
    assert hold.valid, "a release by another owner is an error as ever"
    if way == "fail":
        with pytest.raises(LookupError, match="the body's own"):
            other.do(block.fail, LookupError("the body's own"))
    else:
        other.do(getattr(block, way))
    assert not hold
    assert not stage.left()


def test_a_loss_is_told_where_the_block_is_left(stage: Stage) -> None:
    """Leaving a lost block elsewhere raises HoldLostError, or adds a note to the body's error."""
    lock, owner, other = stage.lock(*stage.clients(**SOON)), stage.actor(), stage.actor()
    block = Block(lock, awaits=stage.world.cancels)
    lost(stage, owner.do(block.enter))
    with pytest.raises(HoldLostError):
        other.do(block.leave)
    block = Block(lock, awaits=stage.world.cancels)
    lost(stage, owner.do(block.enter))
    with pytest.raises(LookupError) as caught:
        other.do(block.fail, LookupError("the body's own"))
    assert any("lost" in note for note in caught.value.__notes__)
    assert owner.do(lambda: lock.hold) is None


@exclusive
def test_an_open_block_outlives_its_actor(stage: Stage) -> None:
    """It is renewed though the thread or task that entered has ended, until another leaves it."""
    lock, theirs = stage.lock(*stage.clients(lease=3)), stage.lock()
    owner, other = stage.actor(), stage.actor()
    block = Block(lock, awaits=stage.world.cancels)
    hold = owner.do(block.enter)
    owner.end()
    gc.collect()
    assert not other.do(theirs.acquire, timeout=3.5)
    assert hold.valid
    other.do(block.leave)
    freed(stage)


@of_kinds(lambda kind: kind.servers == 1 and not kind.shared)
def test_a_block_that_is_gone_ends_its_hold(stage: Stage) -> None:
    """A MisuseWarning names it; the lock is free soon, and its owner's next hold is another one.

    So nothing that comes late, for the former hold, can end the next one.
    """
    lock, theirs = stage.lock(*stage.clients(**SOON)), stage.lock()
    owner, other = stage.actor(), stage.actor()
    stack: Any = contextlib.AsyncExitStack() if stage.world.cancels else contextlib.ExitStack()
    enter = stack.enter_async_context if stage.world.cancels else stack.enter_context
    former = owner.do(enter, lock).holder
    with warned("the name"):
        stack._exit_callbacks.clear()  # as if the program had dropped it
        del enter, stack
        gc.collect()
        assert other.do(theirs.acquire, timeout=20)
    other.do(theirs.release)
    hold = held(owner, lock, timeout=5)
    assert hold.holder != former
    owner.do(lock.release)
    freed(stage)


def test_a_hold_is_a_block(stage: Stage) -> None:
    """Anyone may leave a hold's block, which frees the lock unless it was released inside."""
    lock, owner, other = stage.lock(), stage.actor(), stage.actor()
    hold = held(owner, lock)
    assert owner.enter(hold) is hold
    assert not other.leave(hold)
    assert not hold
    assert not stage.left()
    hold = held(owner, lock)
    owner.enter(hold)
    owner.do(hold.release)
    owner.leave(hold)
    assert not stage.left()


def test_a_lock_is_released_and_taken_inside(stage: Stage) -> None:
    """A block's lock may be released and acquired again inside; leaving releases the new hold."""
    lock, owner = stage.lock(), stage.actor()
    block = Block(lock, awaits=stage.world.cancels)
    owner.do(block.enter)
    owner.do(lock.release)
    owner.do(lock.acquire)
    owner.do(block.leave)
    assert not stage.left()


@exclusive
def test_by_hand_another_actor_leaves(stage: Stage) -> None:
    """What one has entered by hand another one may leave by hand, once."""
    lock, owner, other = stage.lock(), stage.actor(), stage.actor()
    hold = owner.enter(lock)
    other.leave(lock)
    assert not hold
    with pytest.raises(NotHeldError):
        other.leave(lock)
    assert not stage.left()


@of_kinds(lambda kind: kind.shared)
def test_each_block_of_one_object_ends_its_own_hold(stage: Stage) -> None:
    """That is so even if another one than its owner leaves it; by hand each leaves its own."""
    lock, one, two_ = stage.lock(), stage.actor(), stage.actor()
    blocks = [Block(lock, awaits=stage.world.cancels) for _ in "12"]
    holds = [actor.do(block.enter) for actor, block in zip((one, two_), blocks, strict=True)]
    two_.do(blocks[0].close)
    assert [bool(hold) for hold in holds] == [False, True]
    one.do(blocks[1].close)
    assert not stage.left()
    holds = [actor.enter(lock) for actor in (one, two_)]
    one.leave(lock)
    assert [bool(hold) for hold in holds] == [False, True]
    two_.leave(lock)
    assert not stage.left()


def test_a_look_up_alone_changes_nothing(stage: Stage) -> None:
    """Asking a lock for its exit method, as frameworks do, leaves a hold by hand to its owner."""
    lock, owner = stage.lock(*stage.clients(**SOON)), stage.actor()
    assert hasattr(lock, "__aexit__" if stage.world.cancels else "__exit__")
    hold = owner.enter(lock)
    gc.collect()
    renewed(hold)
    owner.do(lock.release)
    freed(stage)


@reentrant
def test_an_inner_hold_that_is_released_inside_leaves_the_outer_one(stage: Stage) -> None:
    """Leaving its block then ends nothing."""
    lock, owner = stage.lock(), stage.actor()
    outer, block = owner.enter(lock), Block(lock, awaits=stage.world.cancels)
    inner = owner.do(block.enter)
    owner.do(inner.release)
    owner.do(block.leave)
    assert outer.depth == 1
    owner.leave(lock)
    assert not stage.left()


@in_asyncio
def test_a_forgotten_await_acquires_nothing(stage: Stage) -> None:
    """A truth test of what was not awaited raises, and of what was awaited before."""
    lock, owner = stage.lock(), stage.actor()
    with pytest.raises(TypeError, match="await"):
        owner.do(lambda: bool(lock.acquire()))
    assert not owner.do(lock.locked)

    async def ask_afterwards() -> None:
        call = lock.acquire()
        assert await call
        await lock.release()
        assert call

    with pytest.raises(TypeError, match="no truth value"):
        owner.do(ask_afterwards)


@exclusive
def test_a_block_that_tries(stage: Stage) -> None:
    """A block by `trying` is entered with or without the lock, and releases what it acquired."""
    ours, theirs = two(stage)
    owner, other, told = stage.actor(), stage.actor(), list[str]()
    trying = ours.trying(timeout=20, lease=100)
    with pytest.raises(TypeError, match="nothing was acquired yet"):
        assert trying
    hold = owner.enter(trying)
    assert 60 < hold.remaining <= 100
    refused = theirs.trying()
    empty = other.enter(refused)
    assert not empty
    assert (empty.name, empty.holder) == (theirs.name, hold.holder)
    assert (empty.depth, empty.valid, empty.remaining, empty.token) == (0, False, 0.0, None)
    other.do(empty.on_lost, lambda: told.append("lost"))
    with pytest.raises(NotHeldError):
        empty.ensure()
    with pytest.raises(NotHeldError, match="not acquired"):
        other.do(empty.release)
    assert not other.leave(refused)
    assert hold.valid
    assert not told
    owner.leave(trying)
    assert not hold
    assert not stage.left()
