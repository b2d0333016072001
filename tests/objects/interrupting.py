"""Interrupt a coroutine where it waits, or a thread where a signal may strike."""

from __future__ import annotations

import asyncio
import dis
import gc
import inspect
import sys
import types
from collections.abc import Coroutine, Generator, Iterator
from pathlib import Path
from typing import Any, Literal, Self, TypeVar

import interlock

R = TypeVar("R")
Moment = Literal["before", "after"]


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

    def __str__(self) -> str:
        return f"Ctrl-C no. {self.at}, {self._place},"

    def __enter__(self) -> Self:
        gc.disable()  # the garbage of other tests has finalizers, which are not meant
        sys.setprofile(self._look)
        return self

    def __exit__(self, *_: object) -> None:
        sys.setprofile(None)
        gc.enable()
        self.struck = self._seen >= self.at

    def next(self) -> Self:
        """Return the next one; it counts as having struck when this one has."""
        following = type(self)(self.at + 1, returns=self.returns)
        following.struck = self.struck
        return following

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


def blows(least: int, *, returns: bool = True) -> Iterator[Blow]:
    """Yield one blow after another, until one finds no place to strike; *least* find one."""
    blow = Blow(1, returns=returns)
    while blow.struck:
        yield blow
        blow = blow.next()
    assert blow.at > least


def _goes_on_inside(frame: types.FrameType) -> bool:
    """Return whether *frame*, which just goes on, does so in a ``yield from`` or ``await``."""
    where = frame.f_lasti
    instruction, argument = frame.f_code.co_code[where : where + 2]
    return dis.opname[instruction] == "RESUME" and argument >= 2
