"""A block that is entered whether or not something could be acquired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

from interlock._drivers.tasks import current_owner
from interlock._misuse import publish, wants_async_with
from interlock.asyncio.block import Exit, entered

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from types import TracebackType

    from interlock.asyncio.block import Block


class _Entered(Protocol):
    """What a block gets, and what it does at its end."""

    async def leave(self, block: Block | None, error: BaseException | None) -> None: ...


E = TypeVar("E", bound=_Entered)


@wants_async_with
class Trying(Generic[E]):
    """An acquire for ``async with``, which gives a falsy object if it fails; made by ``trying``.

    For example ``async with lock.trying(timeout=1) as hold: if hold: ...``. Leaving the block
    releases what was acquired.
    """

    def __init__(self, acquire: Callable[[Block | None], Awaitable[E]]) -> None:
        self._acquire = acquire
        # What was entered by hand, by the identity of the owner: one who leaves must not release
        # what another one has.
        self._by_hand: dict[int, list[E]] = {}

    def __bool__(self) -> bool:
        raise TypeError("nothing was acquired yet: use `async with`")

    async def __aenter__(self) -> E:
        block = entered(self)
        got = await self._acquire(block)
        if block is None:
            self._by_hand.setdefault(_who(), []).append(got)
        else:
            block.got = got
        return got

    if TYPE_CHECKING:

        async def __aexit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...
    else:
        __aexit__ = Exit()

    async def leave(self, block: Block, error: BaseException | None) -> None:
        """Release what *block* acquired, in any task that leaves it; not for users."""
        got: E = self._left_by_hand() if block.got is None else block.got
        block.got = None  # it may refer to the block
        await got.leave(block, error)

    def _left_by_hand(self) -> E:
        """Return what a call of ``__aexit__`` by hand releases."""
        who = _who()
        if who not in self._by_hand:  # another task leaves the block, as in a fixture
            who = list(self._by_hand)[-1]
        mine = self._by_hand[who]
        got = mine.pop()
        if not mine:
            del self._by_hand[who]
        return got


def _who() -> int:
    """Return the identity of the owner; 0 if there is none."""
    try:
        return current_owner().identity
    except RuntimeError:
        return 0


publish("interlock.asyncio", Trying)
