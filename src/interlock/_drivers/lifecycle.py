"""What happens to clients when the process forks or ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable


R = TypeVar("R")

EXIT_TIMEOUT = 1.0
"""Seconds that the exit may be held up by each client that still holds something or is ending."""

FORKERS = ("multiprocessing", "billiard")
"""Packages whose children end without the interpreter's exit.

Each calls finalizers of its own (`Finalize`).
"""
LAST = -100
"""The priority of ours among them: after the user's."""


class Mortal(Protocol):
    """A driver, as far as the end of processes concerns it."""

    ending: Ending

    @property
    def in_use(self) -> bool:
        """Return whether there is anything to end."""
        ...

    def after_fork(self) -> None:
        """Become a new client in the child: hold nothing, harm nothing."""
        ...

    def at_exit(self) -> None:
        """Release what is still held, within a bounded time."""
        ...

    def end_dropped(self) -> None:
        """End all of a client that nobody can use any more."""
        ...


class Ending:
    """The end of one client, which may be begun again until it is complete.

    Attributes:
        over: True when it is complete. That the server could not be told does not change that: it
            is raised once.
        warns: whether a client that is dropped without this says so.
    """

    def __init__(self) -> None:
        self._mutex = threading.RLock()
        self._under_way = False
        self.over = False
        self.warns = True

    def run(self, step: Callable[[], None], timeout: float) -> None:
        """Perform *step* unless that was done.

        Wait at most *timeout* seconds for another thread that does it.
        """
        if self.over or not self._mutex.acquire(timeout=timeout):
            return
        try:
            # A signal handler or finalizer that comes in here leaves it to the one that it has
            # interrupted.
            if not self.over and not self._under_way:
                self._perform(step)
        finally:
            self._mutex.release()

    def _perform(self, step: Callable[[], None]) -> None:
        self._under_way = True
        try:
            step()
            self.over = True
        except ServerUnavailableError:
            self.over = True
            raise
        finally:
            self._under_way = False


_living: weakref.WeakSet[Mortal] = weakref.WeakSet()
_closing: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
"""The threads that end dropped clients."""
_hooked: set[str] = set()


def register(driver: Mortal) -> None:
    """Have *driver* told of forks and of the interpreter's exit."""
    _living.add(driver)
    for package in FORKERS:
        _hook_end_of_child(package)


def weakly(method: Callable[[], R]) -> Callable[[], R | None]:
    """Return what calls *method*, and does not keep its object alive; None when that is gone."""
    reference = weakref.WeakMethod(method)

    def call() -> R | None:
        bound = reference()
        return None if bound is None else bound()

    return call


def dropped(driver: Mortal, name: str) -> None:
    """End a client that was dropped without being closed, in a thread of its own, and warn of it.

    Args:
        driver: what is left of it; called from its finalizer, in whatever thread.
        name: what to call it.
    """
    if driver.ending.over or not driver.in_use:
        return
    _living.add(driver)  # should the process end first

    def end() -> None:
        rest = ""
        try:
            try:
                driver.end_dropped()
            except ServerUnavailableError:
                rest = "; what it held ends with its lease"
            message = f"unclosed {name}: call close(), or use it in a with statement{rest}"
            if driver.ending.warns:
                warnings.warn(message, ResourceWarning, stacklevel=2)
        except BaseException as error:  # noqa: BLE001 - nobody waits for it
            report("a client that was dropped without being closed", error)

    thread = threading.Thread(target=end, name="interlock-close", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # The interpreter exits. What is held is released by `at_exit`, or ends with its lease.
        return
    _closing.add(thread)


def _hook_end_of_child(package: str) -> None:
    """Have `_at_exit` called at the end of this process if it is a child that *package* has made."""
    util: Any = sys.modules.get(f"{package}.util")
    process: Any = sys.modules.get(f"{package}.process")
    if util is None or process is None or package in _hooked:
        return
    _hooked.add(package)
    # A child forgets the finalizers of its parent first, and then calls these hooks.
    util.register_after_fork(_living, partial(_add_finalizer, util))
    if process.current_process()._parent_pid is not None:  # noqa: SLF001 - billiard has no parent_process()
        _add_finalizer(util)


def _add_finalizer(util: Any, living: object = None) -> None:
    del living
    util.Finalize(None, _at_end_of_child, exitpriority=LAST)


def _at_end_of_child() -> None:
    # As at the interpreter's exit: threads that are no daemons come to their end first, and may
    # still hold.
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    _at_exit()


def _each(step: Callable[[Mortal], None]) -> None:
    for driver in list(_living):
        try:
            step(driver)
        except Exception as error:  # noqa: BLE001 - one client's trouble must not keep the others from it
            report("a fork or the exit of the process", error)


def report(what: str, error: BaseException) -> None:
    """Report *error*, which has no caller to go to, as an exception in a thread is.

    On stderr, or to the user's hook.
    """
    error.add_note(f"in interlock: {what}")
    args = threading.ExceptHookArgs(
        (type(error), error, error.__traceback__, threading.current_thread())
    )
    try:
        threading.excepthook(args)
    except BaseException as failure:  # noqa: BLE001 - a hook that fails must not end the thread that reports
        sys.__excepthook__(type(failure), failure, failure.__traceback__)


def _after_fork() -> None:
    for package in FORKERS:
        _hook_end_of_child(package)
    _each(lambda driver: driver.after_fork())


def _at_exit() -> None:
    _each(lambda driver: driver.at_exit())
    # The interpreter ends a daemon thread anywhere, in the middle of a warning too.
    for thread in list(_closing):
        thread.join(EXIT_TIMEOUT)


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
