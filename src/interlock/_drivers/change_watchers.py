"""Observers of elections for threads: each is a thread that waits for changes and tells of them.

User code may be slow or hang. So each observer has a thread of its own. An error in a callback is
reported, and the next change is told all the same.
"""

from __future__ import annotations

import os
import threading
import weakref
from typing import TYPE_CHECKING, TypeVar

from interlock._drivers.process.lifecycle import report, run_user, start
from interlock.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._drivers.threads import ThreadDriver

T = TypeVar("T")

RETRY = 0.5
"""Seconds after which an observer looks again if the server did not answer."""


class Watching:
    """A thread that tells of changes until it is stopped.

    Args:
        driver: the client's.
        what: is observed, in words.
        changed: waits for a change. It returns False when it is stopped.
        tell: calls the user; it runs in the thread.
        stop: ends *changed*.

    Raises:
        ClosedError: the client is closed.
    """

    def __init__(
        self,
        driver: ThreadDriver,
        what: str,
        changed: Callable[[], bool],
        tell: Callable[[], object],
        stop: Callable[[], None],
    ) -> None:
        if driver.closed:
            raise ClosedError("the client is closed")
        self._what = what
        self._changed = changed
        self._tell = tell
        self._stop = stop
        self._over = False
        self._begin()
        _living.add(self)

    def _begin(self) -> None:
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="interlock-watch", daemon=True)
        start(self._thread)

    def after_fork(self) -> None:
        """Go on in a forked child, which has none of its parent's threads."""
        if not self._over:
            self._begin()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                if not self._changed():
                    break
            except ClosedError:
                break
            except Exception as error:  # noqa: BLE001 - it is reported; the next look may succeed
                report(f"an observer of {self._what}", error)
                _ = self._stopped.wait(RETRY)
                continue
            run_user(f"a callback of {self._what}", self._tell)
        self._over = True

    def close(self) -> None:
        """End the observer; wait for a callback that runs, unless the callback calls this."""
        self._over = True
        self._stopped.set()
        self._stop()
        if self._thread is not threading.current_thread():
            self._thread.join()


_living: weakref.WeakSet[Watching] = weakref.WeakSet()


def _after_fork() -> None:
    for watching in list(_living):
        try:
            watching.after_fork()
        except Exception as error:  # noqa: BLE001 - one observer's error must not affect the others
            report("an observer, after a fork", error)


if hasattr(os, "register_at_fork"):  # not on Windows, where nothing forks
    os.register_at_fork(after_in_child=_after_fork)  # after the clients' hook
