"""What happens to clients when the process forks or ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import weakref
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable


EXIT_TIMEOUT = 1.0
"""Seconds that the exit of the interpreter may be held up by releasing what is still held."""


class Mortal(Protocol):
    """A driver, as far as the end of processes concerns it."""

    def after_fork(self) -> None:
        """Become a new client in the child: hold nothing, harm nothing."""
        ...

    def at_exit(self) -> None:
        """Release what is still held, within a bounded time."""
        ...


_living: weakref.WeakSet[Mortal] = weakref.WeakSet()


def register(driver: Mortal) -> None:
    """Have *driver* told of forks and of the interpreter's exit."""
    _living.add(driver)


def _each(step: Callable[[Mortal], None]) -> None:
    for driver in list(_living):
        try:
            step(driver)
        except Exception as error:  # noqa: BLE001 - one client's trouble must not keep the others from it
            report("a fork or the exit of the process", error)


def report(what: str, error: BaseException) -> None:
    """Report *error*, which has no caller to go to, as an exception in a thread is: on stderr, or to the user's hook."""
    error.add_note(f"in interlock: {what}")
    args = threading.ExceptHookArgs(
        (type(error), error, error.__traceback__, threading.current_thread())
    )
    try:
        threading.excepthook(args)
    except BaseException as failure:  # noqa: BLE001 - a hook that fails must not end the thread that reports
        sys.__excepthook__(type(failure), failure, failure.__traceback__)


def _after_fork() -> None:
    _each(lambda driver: driver.after_fork())


def _at_exit() -> None:
    _each(lambda driver: driver.at_exit())


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
