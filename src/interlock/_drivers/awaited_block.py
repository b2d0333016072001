"""The ``__aexit__`` of a lock: each look-up gives the end of a new block."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, cast

from interlock._drivers.block import Block, here, leave
from interlock._drivers.tasks import current_owner

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import CoroutineType, TracebackType
    from typing import TypeAlias

    from interlock._drivers.block import Entered

    Exits: TypeAlias = Callable[
        [Any, type[BaseException] | None, BaseException | None, TracebackType | None],
        CoroutineType[Any, Any, None],
    ]


class Exit:
    """The ``__aexit__`` of a class of locks: each look-up gives the end of a new block.

    No cancellation strikes where a task does not wait, so there is nothing to undo. The block lives
    until it is left: the coroutine that leaves it refers to it.
    """

    def __init__(self, undo: Callable[[Any], object] | None = None) -> None:
        del undo

    def __get__(self, lock: Entered | None, kind: type[Entered] | None = None) -> Any:
        """Return the end of a new block."""
        block = Block().of(lock)
        here().newest = block.handle
        return partial(leave, block)


def exits(undo: Callable[[Any], object] | None = None, kind: type[Exit] = Exit) -> Exits:
    """Return an `Exit`, or another *kind* of it; to type checkers it is a method."""
    return cast("Exits", kind(undo))


def caller() -> int:
    """Return the identity of the running task's owner; 0 if there is none."""
    try:
        return current_owner().identity
    except RuntimeError:
        return 0
