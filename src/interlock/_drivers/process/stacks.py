"""The stack of a thread or task that holds a lock, for an operator who asks for it.

A stack has the file, line and function of each call, the most recent call last. It has neither
values nor source code. It is read by another thread while the thread or task runs, so it is only a
hint.
"""

from __future__ import annotations

import sys
import weakref
from types import CoroutineType, GeneratorType
from typing import TYPE_CHECKING, Any, cast

from interlock._core.model.holds import Owner
from interlock._drivers.process import lifecycle
from interlock._drivers.process.named import NamedOwner

if TYPE_CHECKING:
    import asyncio
    from types import FrameType

    from interlock._core.model.holds import Hold

DEEPEST = 100
"""The most calls of a stack that are read."""


class ThreadOwner(Owner):
    """The owner that stands for a thread.

    Args:
        label: its name in messages.
        ident: the identifier of the thread.
    """

    __slots__ = ("ident",)

    def __init__(self, label: str, ident: int) -> None:
        super().__init__(label)
        self.ident = ident
        self.reference = weakref.ref(self, lifecycle.owner_ended)


class GreenletOwner(Owner):
    """The owner that stands for a greenlet in a thread that is not patched."""

    __slots__ = ()

    def __init__(self, greenlet: Any) -> None:
        found = weakref.ref(greenlet)

        def ended() -> bool:
            living = found()
            return living is None or bool(living.dead)

        super().__init__(f"greenlet {id(greenlet):#x}", ended)
        self.reference = weakref.ref(self, lifecycle.owner_ended)


class TaskOwner(Owner):
    """The owner that stands for a task, and ends with it."""

    __slots__ = ("_task",)

    def __init__(self, task: asyncio.Task[object]) -> None:
        super().__init__(f"task {task.get_name()!r}")
        self._task = weakref.ref(task)
        reference = self.reference
        task.add_done_callback(lambda _: lifecycle.owner_ended(reference))

    def ended(self) -> bool:
        """Return whether the task has ended, or will never go on."""
        task = self._task()
        return task is None or task.done() or task.get_loop().is_closed()

    @property
    def task(self) -> asyncio.Task[object] | None:
        """Return the task; None if it does not exist any more."""
        return self._task()


def stack_of(hold: Hold) -> list[str]:
    """Return the calls of the thread or task that has *hold*, the most recent call last.

    The list is empty if the thread or task has ended, or if another library runs it.
    """
    owner = hold.owner()
    if isinstance(owner, NamedOwner):
        owner = owner.acquirer(hold)
    if isinstance(owner, ThreadOwner):
        return _calls(_frame_of(owner.ident))
    task = owner.task if isinstance(owner, TaskOwner) else None
    return [] if task is None else _calls_of_task(task)


def _frame_of(ident: int | None) -> FrameType | None:
    # The documented way.
    frames = sys._current_frames()  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    return None if ident is None else frames.get(ident)


def _calls(frame: FrameType | None) -> list[str]:
    found: list[str] = []
    while frame is not None and len(found) < DEEPEST:
        found.append(_call(frame))
        frame = frame.f_back
    return found[::-1]


def _calls_of_task(task: asyncio.Task[object]) -> list[str]:
    found: list[str] = []
    each: object = task.get_coro()
    while len(found) < DEEPEST:
        # Only Python's own types: an attribute of another type may be the user's code.
        if isinstance(each, CoroutineType):
            frame, after = each.cr_frame, each.cr_await
        elif isinstance(each, GeneratorType):
            generator = cast("GeneratorType[object, object, object]", each)
            frame, after = generator.gi_frame, cast("object", generator.gi_yieldfrom)
        else:
            break
        if isinstance(each, CoroutineType) and each.cr_running:
            # It runs just now: the rest is on the stack of the loop's thread.
            return _calls(_frame_of(getattr(task.get_loop(), "_thread_id", None)))
        if frame is None:
            break
        found.append(_call(frame))
        each = after
    return found


def _call(frame: FrameType) -> str:
    code = frame.f_code
    return f"{code.co_filename}:{frame.f_lineno} in {code.co_qualname}"
