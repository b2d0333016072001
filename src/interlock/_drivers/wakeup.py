"""What wakes a thread that waits."""

from __future__ import annotations

import threading


class Wakeup:
    """Wakes one waiting thread: a lock that is free while there is something to look at."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def __call__(self) -> None:
        """Ring: end the wait, or the next one."""
        # Ringing twice before the waiter looks is the same as once.
        try:  # noqa: SIM105 - `suppress` costs three calls, in each turn of a lock that many want
            self._lock.release()
        except RuntimeError:
            pass

    def wait(self, seconds: float) -> bool:
        """Wait for a ring, at the longest *seconds*; return whether it came."""
        return self._lock.acquire(timeout=max(0, seconds))
