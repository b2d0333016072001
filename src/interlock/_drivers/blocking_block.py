"""The ``__exit__`` of a lock: each look-up gives the end of a new block, which a Ctrl-C may strike.

What leaves the block may be dropped before its first instruction. Then a thread finishes what is
left of the block. A look-up that is struck undoes what was acquired before it.
"""

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, cast

from interlock._drivers.block import Block, here, leave
from interlock._drivers.flow import current_owner
from interlock._drivers.threads import finish_later, whole

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType
    from typing import TypeAlias

    from interlock._core.model.effects import Step
    from interlock._drivers.block import Entered
    from interlock._drivers.protocol import BlockingDriver

    Exits: TypeAlias = Callable[
        [Any, type[BaseException] | None, BaseException | None, TracebackType | None], None
    ]


class Exit:
    """The ``__exit__`` of a class of locks: each look-up gives the end of a new block.

    Args:
        undo: undoes what was acquired before the look-up, if that is struck; None for nothing.
    """

    def __init__(self, undo: Callable[[Any], object] | None = None) -> None:
        self._undo = undo

    def __get__(self, lock: Entered | None, kind: type[Entered] | None = None) -> Any:
        """Return the end of a new block."""
        block = Block().of(lock)
        end = partial(leave, block)
        here().newest = block.handle
        # A traceback may keep the block, but never its end. Told twice: a Ctrl-C may come before
        # the first instruction of the call, and is lost there.
        dropped = partial(_dropped, block)
        block.hears = weakref.ref(end, dropped), weakref.ref(end, dropped)
        block.handle = weakref.ref(end)
        return end

    def _struck(self, lock: object, *_: object) -> None:
        """Undo what was acquired before a look-up that was struck."""
        if self._undo is not None and lock is not None:
            self._undo(lock)

    __get__ = whole(__get__, _struck)


def _dropped(block: Block, _: object = None) -> None:
    """Finish what is left of *block* in the background: what leaves it is gone.

    That is early if a Ctrl-C came before its first instruction.
    """
    left = block.left
    if left is None or block.over:
        return
    try:
        _finish(block, left)
    except BaseException:  # noqa: BLE001 - a second Ctrl-C; nobody would see it here
        _finish(block, left)
    block.left = None


def _finish(block: Block, left: Callable[[], Step[Any] | None]) -> None:
    # Asked for once: a semaphore would make a second release, which gives another permit.
    step = block.step = block.step or left()
    if step is not None:
        finish_later(cast("BlockingDriver", block.driver), block.name, step)


def exits(undo: Callable[[Any], object] | None = None, kind: type[Exit] = Exit) -> Exits:
    """Return an `Exit`, or another *kind* of it; to type checkers it is a method."""
    return cast("Exits", kind(undo))


def caller() -> int:
    """Return the identity of the running thread's owner."""
    return current_owner().identity
