"""Observers of the sync face: a thread that waits for changes and tells of them.

User code may be slow, hang, raise, or call ``sys.exit``. So each observer has a thread of its own.
An error in a callback is reported, and the next change is told all the same.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, TypeVar

from interlock._drivers.lifecycle import report
from interlock.errors import ClosedError, InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.effects import Op
    from interlock._drivers.threads import ThreadDriver

T = TypeVar("T")

RETRY = 0.5
"""Seconds after which an observer looks again that the server did not answer."""


class Watching:
    """A thread that tells of changes until it is stopped.

    Args:
        driver: the client's.
        changed: makes the operation that waits for a change. It returns False when it is stopped.
        tell: calls the user; it runs in the thread.
        stop: ends the operation.
    """

    def __init__(
        self,
        driver: ThreadDriver,
        changed: Callable[[], Op[bool]],
        tell: Callable[[], object],
        stop: Callable[[], None],
    ) -> None:
        self._driver = driver
        self._changed = changed
        self._tell = tell
        self._stop = stop
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="interlock-watch", daemon=True)
        self._thread.start()

    def _run(self) -> None:
        while not self._stopped.is_set():
            try:
                if not self._driver.run(self._changed()):
                    return
            except ClosedError:
                return
            except InterlockError as error:
                report("an observer of an election", error)
                _ = self._stopped.wait(RETRY)
                continue
            self._call()

    def _call(self) -> None:
        try:
            _ = self._tell()
        except BaseException as error:  # noqa: BLE001 - the user's code; the next change is told too
            report("a callback of an election", error)

    def close(self) -> None:
        """Tell of no more changes; wait for a callback that runs, unless it calls this."""
        self._stopped.set()
        self._stop()
        if self._thread is not threading.current_thread():
            self._thread.join()
