"""The steps for clients when the process forks or ends."""

from __future__ import annotations

import atexit
import os
import sys
import threading
import warnings
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock.errors import MisuseWarning, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._drivers.connected import ConnectedDriver

finalizing = sys.is_finalizing
"""Return whether the interpreter takes its modules apart. Finalizers bind it, and then do nothing.

By then `at_exit` has released what was held.
"""
EXIT_TIMEOUT = 1.0
"""Seconds for which each client that still holds something, or is ending, may delay the exit."""

FORKERS = ("multiprocessing", "billiard")
"""Packages whose child processes end without the interpreter's exit.

The children call finalizers of the package instead (`Finalize`).
"""
LAST = -100
"""The priority of our finalizer: it runs after the user's."""


class Ending:
    """The end of one client. It may be tried again until it is complete.

    Attributes:
        over: True when it is complete, even if the server could not be reached. That error is
            raised once, and nothing is tried again.
        warns: whether a client warns if it was dropped without being closed.
    """

    def __init__(self) -> None:
        self.over = False
        self.warns = True
        self.after_fork()

    def after_fork(self) -> None:
        """Forget the thread that performs the end: it is one of the parent process."""
        self._mutex = threading.RLock()
        self._under_way = False

    def run(self, step: Callable[[], None], timeout: float) -> None:
        """Perform *step*, unless the end is complete.

        If another thread performs it just now, wait at most *timeout* seconds for that thread.
        """
        if self.over or not self._mutex.acquire(timeout=timeout):
            return
        # A signal handler or finalizer may interrupt *step* and come in here. It leaves the rest to
        # the interrupted call.
        outermost = not self._under_way
        try:
            if outermost and not self.over:
                self._under_way = True
                step()
                self.over = True
        except ServerUnavailableError:
            self.over = True
            raise
        finally:
            if outermost:
                self._under_way = False
            self._mutex.release()


_living: weakref.WeakSet[ConnectedDriver] = weakref.WeakSet()
_closing: weakref.WeakSet[threading.Thread] = weakref.WeakSet()
"""The threads that end dropped clients."""
_hooked: set[str] = set()


def register(driver: ConnectedDriver) -> None:
    """Tell *driver* of forks and of the interpreter's exit from now on."""
    _living.add(driver)
    for package in FORKERS:
        _hook_end_of_child(package)


def owner_ended(reference: object) -> None:
    """Tell all clients that the thread or task has ended that holds know by *reference*."""
    if not sys.is_finalizing():
        _each(lambda driver: driver.owner_ended(reference))


def dropped(driver: ConnectedDriver, name: str) -> None:
    """Start a thread that ends the client *name* and warns that nobody has closed it.

    The finalizer of its *driver* calls this, in any thread.
    """
    if driver.ending.over or not driver.started:
        return
    _living.add(driver)  # in case the process ends first
    held = ", ".join(repr(each) for each in driver.held()[:3])

    def end() -> None:
        rest = f"; it held {held}, which nothing protects any more" if held else ""
        try:
            driver.end()
        except ServerUnavailableError:
            rest += "; what it held ends with its lease"
        message = f"unclosed {name}: call close(), or use it in a with statement{rest}"
        if driver.ending.warns:
            warnings.warn(message, MisuseWarning if held else ResourceWarning, stacklevel=2)

    end_it = partial(run_user, "a client that was dropped without being closed", end)
    thread = threading.Thread(target=end_it, name="interlock-close", daemon=True)
    try:
        thread.start()
    except RuntimeError:
        # The interpreter exits. `at_exit` releases the holds, or they end with their leases.
        return
    _closing.add(thread)


def _hook_end_of_child(package: str) -> None:
    """Hook the end of every child of *package*, and of this process if it is such a child."""
    util: Any = sys.modules.get(f"{package}.util")
    process: Any = sys.modules.get(f"{package}.process")
    if util is None or process is None or package in _hooked:
        return
    _hooked.add(package)
    # A child forgets the finalizers of its parent first, and then calls these hooks.
    util.register_after_fork(_living, partial(_add_finalizer, util))
    # billiard has no parent_process().
    if process.current_process()._parent_pid is not None:  # noqa: SLF001
        _add_finalizer(util)


def _add_finalizer(util: Any, living: object = None) -> None:
    del living
    util.Finalize(None, _at_end_of_child, exitpriority=LAST)


def _at_end_of_child() -> None:
    # As at the interpreter's exit, wait for all threads but daemons: they may still hold locks.
    for thread in threading.enumerate():
        if thread is not threading.current_thread() and not thread.daemon:
            thread.join()
    _at_exit()


def _each(step: Callable[[ConnectedDriver], None]) -> None:
    for driver in list(_living):
        try:
            step(driver)
        except Exception as error:  # noqa: BLE001 - one client's error must not affect the others
            if isinstance(error, ServerUnavailableError):
                # The message says all: where it was raised helps nobody.
                error.__cause__ = error.__context__ = error.__traceback__ = None
            report("a fork or the exit of the process", error)


def start(begin: Callable[[], object], name: str) -> None:
    """Start the thread *name* by *begin*.

    Raises:
        ServerUnavailableError: the system has no room for it.
    """
    try:
        _ = begin()
    except RuntimeError as error:
        raise ServerUnavailableError(
            f"the thread {name!r} cannot be started: {error}; too many threads run, or the "
            "interpreter exits"
        ) from error


def report(what: str, error: BaseException) -> None:
    """Report an *error* that no caller gets, like an exception that ends a thread.

    It goes to stderr, or to the user's hook (`threading.excepthook`).
    """
    if isinstance(error, SystemExit):
        # Exception hooks of threads ignore it. The user would never learn that the process goes on.
        exiting = RuntimeError("sys.exit() ended this call only, not the process")
        exiting.__cause__, error = error, exiting
    error.add_note(f"in interlock: {what}")
    args = threading.ExceptHookArgs(
        (type(error), error, error.__traceback__, threading.current_thread())
    )
    try:
        threading.excepthook(args)
    except BaseException as failure:  # noqa: BLE001 - a failing hook must not end this thread
        sys.__excepthook__(type(failure), failure, failure.__traceback__)


def run_user(what: str, callback: Callable[[], object], *, tell: bool = True) -> bool:
    """Call the user's *callback*, called *what* in a report of its error: no caller gets that.

    Return whether it raised nothing. The report is left out unless *tell*.
    """
    try:
        _ = callback()
    except BaseException as error:  # noqa: BLE001 - the user's code; ours goes on
        if tell:
            report(what, error)
        return False
    return True


def _after_fork() -> None:
    for package in FORKERS:
        _hook_end_of_child(package)
    _each(lambda driver: driver.after_fork())


def _at_exit() -> None:
    _each(lambda driver: driver.at_exit())
    # The interpreter stops a daemon thread anywhere, even in the middle of a warning.
    for thread in list(_closing):
        thread.join(EXIT_TIMEOUT)


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_after_fork)
atexit.register(_at_exit)
