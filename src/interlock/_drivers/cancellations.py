"""Tasks of asyncio that are cancelled for a loss."""

from __future__ import annotations

import asyncio
import weakref
from functools import partial
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.hold import Hold


class Cancellations:
    """The tasks of one client that were cancelled by a loss, each with the hold that it lost."""

    def __init__(self) -> None:
        self._by_task: weakref.WeakKeyDictionary[asyncio.Task[object], Hold] = (
            weakref.WeakKeyDictionary()
        )
        self._armed: weakref.WeakKeyDictionary[asyncio.Task[object], weakref.WeakSet[Hold]] = (
            weakref.WeakKeyDictionary()
        )

    def of(self, hold: Hold) -> Callable[[], None] | None:
        """Return what cancels the task that runs now, for the loss of *hold*; None the next times."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError(
                "cancel_on_lost must be called from the task that is to be cancelled"
            )
        armed = self._armed.setdefault(task, weakref.WeakSet())
        if hold in armed:
            return None
        armed.add(hold)
        return partial(self._cancel, task, hold)

    def _cancel(self, task: asyncio.Task[object], hold: Hold) -> None:
        """Cancel *task*, unless its release of *hold* has begun."""
        former = self._by_task.get(task)
        hold = hold.latest()
        if task.done() or not hold.kept():
            return
        # One cancellation is enough for all holds that one task loses.
        if not (former and former.kept()):
            self._by_task[task] = hold
            _ = task.cancel(f"{hold.name!r} was lost")

    def take_back(self, error: BaseException | None, hold: Hold | None) -> bool:
        """Return whether *error* is the cancellation for *hold*; if so, take it back."""
        task = asyncio.current_task()
        if not isinstance(error, asyncio.CancelledError) or task is None or hold is None:
            return False
        if self._by_task.get(task) != hold:
            return False
        del self._by_task[task]
        _ = task.uncancel()
        return True
