"""Interrupt a coroutine where it waits, or a thread where a signal may strike or after a time."""

from __future__ import annotations

import asyncio
import contextlib
import dis
import functools
import gc
import inspect
import signal
import sys
import threading
import types
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Self, TypeVar

import interlock
from interlock._core.locks.base import Acquire, Lock
from interlock._core.locks.composite import Composite
from interlock._core.locks.multi_lock import MultiLock
from interlock._core.locks.release import Release
from interlock._core.model.hold import Hold, Owner
from interlock._core.objects.counter import Call, Carried, Counter, GiveBack
from interlock._core.objects.permits import LeasedPermits, Permits, Take
from interlock._core.objects.semaphore import Draining, Semaphore, Taking
from interlock._core.upkeep.garbage import Garbage
from interlock._core.upkeep.session import Session

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator, Iterator

    import pytest

STRUCK = (
    *(Acquire, Release, Lock, Composite, MultiLock, Hold, Owner, Session, Garbage),
    *(Semaphore, Permits, LeasedPermits, Take),
    *(Call, Carried, Counter, Draining, GiveBack, Taking),
)
"""Whose methods undo what is interrupted."""
R = TypeVar("R")
Moment = Literal["before", "after"]


@contextlib.contextmanager
def interrupt_after(seconds: float) -> Iterator[None]:
    """Raise KeyboardInterrupt in the main thread after *seconds*, wherever it is."""

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


class Points:
    """Runs coroutines in the running task and cancels it at the *at*-th wait.

    Args:
        at: counted from 0.
        moment: ``"before"`` what is waited for can have happened, or ``"after"`` it has and the
            task does not know yet.

    Attributes:
        reached: whether there was such a wait.
    """

    def __init__(self, at: int, moment: Moment) -> None:
        self.reached = False
        self._at = at
        self._moment = moment
        self._seen = 0

    @types.coroutine
    def run(self, coroutine: Coroutine[Any, Any, R]) -> Generator[Any, Any, R]:
        """Return what *coroutine* returns."""
        outcome: Any = None
        error: BaseException | None = None
        while True:
            try:
                waited_for = coroutine.send(outcome) if error is None else coroutine.throw(error)
            except StopIteration as stop:
                return stop.value
            if self._seen == self._at:
                self._strike(waited_for)
            self._seen += 1
            outcome = error = None
            try:
                outcome = yield waited_for
            except BaseException as thrown:
                error = thrown

    def _strike(self, waited_for: Any) -> None:
        self.reached = True
        task = asyncio.current_task()
        assert task is not None
        if self._moment == "before" or waited_for is None:
            task.cancel()
            return
        # Called ahead of the task's own wake-up, which is added to the future later.
        blocking, waited_for._asyncio_future_blocking = waited_for._asyncio_future_blocking, False
        waited_for.add_done_callback(lambda _: task.cancel())
        waited_for._asyncio_future_blocking = blocking


class Blow:
    """Raises KeyboardInterrupt in this thread at a place where the interpreter looks for signals.

    That is where a function of interlock begins, ends, or has just called one in C. A yield is no
    such place, nor is the way back through the generators that wait for another one's yield.

    Args:
        at: which of them, counted from 1 since the ``with`` statement began.
        returns: whether the end of a function counts. The interpreter looks for signals there
            only if code in C called it.

    Attributes:
        at: as given.
        struck: whether there was such a place; True until it is known.
    """

    _PACKAGE = str(Path(interlock.__file__).parent)

    def __init__(self, at: int, *, returns: bool = True) -> None:
        self.at = at
        self.returns = returns
        self.struck = True
        self._seen = 0
        self._place = "nowhere"
        self._thread = 0

    def __str__(self) -> str:
        return f"Ctrl-C no. {self.at}, {self._place},"

    def __enter__(self) -> Self:
        self._thread = threading.get_ident()
        gc.disable()  # the garbage of other tests has finalizers, which are not meant
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()
        self._thread = 0
        self.struck = self._seen >= self.at

    def next(self) -> Self:
        """Return the next one; it counts as having struck when this one has."""
        following = type(self)(self.at + 1, returns=self.returns)
        following.struck = self.struck
        return following

    @property
    def fallen(self) -> bool:
        """Whether it has struck already, in this thread and ``with`` statement."""
        return self._thread == threading.get_ident() and self._seen >= self.at

    def _look(self, frame: types.FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "c_call" or not code.co_filename.startswith(self._PACKAGE):
            return
        if event == "return" and (code.co_flags & inspect.CO_GENERATOR or not self.returns):
            return
        if event == "call" and _goes_on_inside(frame):
            return
        self._seen += 1
        if self._seen == self.at:
            self._place = f"{event} in {code.co_qualname}, line {frame.f_lineno}"
            raise KeyboardInterrupt


class SecondBlow:
    """Raises KeyboardInterrupt where a method is called after a first blow.

    What the profiler calls can raise only once. So the methods are replaced, as long as
    *monkeypatch* lasts.

    Args:
        monkeypatch: replaces the methods.
        classes: whose.
    """

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *classes: type) -> None:
        self._left = 0
        self._first: Blow | None = None
        for each in classes:
            for name, member in vars(each).items():
                if inspect.isfunction(member) and not name.startswith("__"):
                    monkeypatch.setattr(each, name, self._watched(member))

    def after(self, first: Blow, calls: int) -> None:
        """Strike the call no. *calls* after *first* has struck."""
        self._first, self._left = first, calls

    def _watched(self, method: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(method)
        def call(*args: Any, **kwargs: Any) -> Any:
            if self._left and self._first is not None and self._first.fallen:
                self._left -= 1
                if not self._left:
                    raise KeyboardInterrupt
            return method(*args, **kwargs)

        return call


def _goes_on_inside(frame: types.FrameType) -> bool:
    """Return whether *frame*, which just goes on, does so in a ``yield from`` or ``await``."""
    where = frame.f_lasti
    instruction, argument = frame.f_code.co_code[where : where + 2]
    return dis.opname[instruction] == "RESUME" and argument >= 2
