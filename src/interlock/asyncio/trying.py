"""A block that is entered whether or not something could be acquired."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from interlock._drivers.awaited_block import caller, exits
from interlock._drivers.block import ByHand, entered
from interlock._misuse import publish
from interlock._traceback import shorten
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock._drivers.block import Block


class _Entered(Protocol):
    """What a block gets, and what it does at its end."""

    async def _leave(self, block: Block | None, raised: BaseException | None) -> None: ...


E = TypeVar("E", bound=_Entered)


class Trying(Generic[E]):
    """An acquire for ``async with``, which gives a falsy object if it fails; made by ``trying``.

    For example ``async with lock.trying(timeout=1) as hold: if hold: ...``. Leaving the block
    releases what was acquired.
    """

    def __init__(self, acquire: Callable[[Block | None], Awaitable[E]]) -> None:
        self._acquire = acquire
        self._by_hand: ByHand[E] = ByHand()

    def __bool__(self) -> bool:
        raise TypeError("nothing was acquired yet: use `async with`")

    async def __aenter__(self) -> E:
        block = entered(self)
        try:
            got = await self._acquire(block)
        except BaseException as error:
            shorten(error)
            raise
        if block is None:
            self._by_hand.enter(caller(), got)
        else:
            block.got = got
        return got

    __aexit__ = exits()

    async def _leave(self, block: Block, raised: BaseException | None) -> None:
        """Release what *block* acquired, in any task that leaves it."""
        got: E | None = self._by_hand.leave(caller()) if block.got is None else block.got
        block.got = None  # it may refer to the block
        if got is None:
            raise RuntimeError("this block was not entered")
        try:
            await got._leave(block, raised)
        except InterlockError as error:
            shorten(error)
            raise


publish("interlock.asyncio", Trying)
