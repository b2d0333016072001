"""The ``__aexit__`` of a lock: each look-up gives the end of a new block."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Generic, TypeVar

from interlock._drivers.block import Block, here, leave
from interlock._drivers.tasks import current_owner

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock._drivers.block import Entered

E = TypeVar("E")


class Exit(Generic[E]):
    """The ``__aexit__`` of a class of locks: each look-up gives the end of a new block.

    No cancellation strikes where a task does not wait, so there is nothing to undo. The block lives
    until it is left: the coroutine that leaves it refers to it.
    """

    def __init__(self, undo: Callable[[E], object] | None = None) -> None:
        del undo

    def __get__(
        self, lock: Entered | None, kind: type[Entered] | None = None
    ) -> partial[Awaitable[object]]:
        """Return the end of a new block."""
        block = Block().of(lock)
        here().newest = block.handle
        return partial(leave, block)


def caller() -> int:
    """Return the identity of the running task's owner; 0 if there is none."""
    try:
        return current_owner().identity
    except RuntimeError:
        return 0
