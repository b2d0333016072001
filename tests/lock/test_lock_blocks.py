"""Any thread or task may leave a ``with`` block, which releases what it acquired.

That holds for every lock-like, on both faces.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import KINDS, READ, Kind, renewed, until
from tests.objects.block import Block

from interlock import MisuseWarning, NotHeldError

if TYPE_CHECKING:
    from tests.lock.lock_like import Face, Stage

SHARED = [
    READ,
    Kind("semaphore", lambda client, name, **_: client.semaphore(name)),
]
"""What several owners can be inside of at once."""


class Stack:
    """An exit stack of either face."""

    def __init__(self, face: Face) -> None:
        self._is_async = face.is_async
        self._stack: Any = contextlib.AsyncExitStack() if face.is_async else contextlib.ExitStack()

    def enter(self, lock: Any) -> Any:
        """Enter *lock*."""
        stack = self._stack
        return stack.enter_async_context(lock) if self._is_async else stack.enter_context(lock)

    def hand_on(self) -> None:
        """Move all to another stack."""
        self._stack = self._stack.pop_all()

    def close(self) -> Any:
        """Leave all."""
        return self._stack.aclose() if self._is_async else self._stack.close()


async def test_by_hand_another_owner_leaves(stage: Stage) -> None:
    """A call of ``__enter__`` by hand is undone by a call of ``__exit__`` by any owner."""
    lock, a, b = stage.lock(stage.client()), stage.owner(), stage.owner()
    hold = await a.do(stage.face.enter, lock)
    await b.do(stage.face.leave, lock)
    assert not hold
    with pytest.raises(NotHeldError):
        await b.do(stage.face.leave, lock)
    assert stage.left_behind() == set()


@pytest.mark.parametrize("shared", SHARED, ids=lambda kind: kind.name)
@pytest.mark.parametrize("entry", ["generator", "stack"])
async def test_two_owners_inside_one_object(plain: Stage, shared: Kind, entry: str) -> None:
    """Each of two owners' blocks in one object ends its own hold, even if the other leaves it."""
    client, a, b = plain.client(), plain.owner(), plain.owner()
    if shared.name == "semaphore":
        await a.do(client.semaphore("name").try_set_permits, 2)
    lock, face = shared.make(client, "name"), plain.face
    blocks: list[Any] = [
        Block(lock, awaits=face.is_async) if entry == "generator" else Stack(face) for _ in "12"
    ]
    holds = [
        await (owner.do(block.enter) if entry == "generator" else owner.do(block.enter, lock))
        for owner, block in zip((a, b), blocks, strict=True)
    ]
    await b.do(blocks[0].close)
    if shared.name == "read":
        assert [bool(hold) for hold in holds] == [False, True]
    else:
        assert await a.do(lock.available_permits) == 1
    await a.do(blocks[1].close)
    if shared.name == "read":
        assert plain.left_behind() == set()
    else:
        assert await a.do(lock.available_permits) == 2


@pytest.mark.parametrize("face", ["asyncio"], indirect=True)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
async def test_wait_for_around_an_exit_stack(stage: Stage) -> None:
    """asyncio.wait_for may make a task of its own that enters; the stack releases all the same."""
    lock = stage.lock(stage.client())
    async with contextlib.AsyncExitStack() as stack:
        hold = await asyncio.wait_for(stack.enter_async_context(lock), 20)
        assert hold.valid
    assert not hold
    hold = await asyncio.wait_for(lock.__aenter__(), 20)
    await lock.__aexit__(None, None, None)
    assert not hold
    assert stage.left_behind() == set()


async def test_a_look_up_alone_changes_nothing(plain: Stage) -> None:
    """Asking a lock for its exit method, as frameworks do, leaves a hold by hand to its owner."""
    client, owner = plain.client(lease=6), plain.owner()
    lock = client.lock("name")

    def enter() -> Any:
        assert hasattr(lock, "__aexit__" if plain.face.is_async else "__exit__")
        return plain.face.enter(lock)

    hold = await owner.do(enter)
    gc.collect()
    await renewed(hold)
    assert hold.valid
    await owner.do(lock.release)
    assert plain.left_behind() == set()


async def test_a_block_that_is_gone_ends_its_hold(plain: Stage) -> None:
    """A MisuseWarning names a block that was never left; its hold is released."""
    client, owner = plain.client(renewed="soon"), plain.owner()
    lock, stack = client.lock("name"), Stack(plain.face)
    await owner.do(stack.enter, lock)
    stack.hand_on()
    other, theirs = plain.owner(), plain.client().lock("name")

    async def vanish() -> None:
        stack._stack._exit_callbacks.clear()
        gc.collect()
        assert await other.do(theirs.acquire, timeout=5)
        await until(lambda: told.list, 10, "a thread has warned")

    with pytest.warns(MisuseWarning, match="'name'") as told:
        await vanish()
