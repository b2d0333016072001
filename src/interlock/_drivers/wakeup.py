"""What wakes a thread that waits."""

from __future__ import annotations

import threading
from contextlib import suppress


class Wakeup:
    """Wakes one waiting thread: a lock that is free while there is something to look at."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def __call__(self) -> None:
        """Ring: end the wait, or the next one."""
        # Ringing twice before the waiter looks is the same as once.
        with suppress(RuntimeError):
            self._lock.release()

    def wait(self, seconds: float) -> None:
        """Wait for a ring, at the longest *seconds*."""
        self._lock.acquire(timeout=max(seconds, 0))
