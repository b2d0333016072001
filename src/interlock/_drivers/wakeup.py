"""The wake-up of a waiting thread."""

from __future__ import annotations

import threading


class Wakeup:
    """Wakes one waiting thread: a lock that is free while there is something to look at."""

    __slots__ = ("_lock",)

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lock.acquire()

    def __call__(self) -> None:
        """Ring: end the present wait, or else the next one."""
        # Ringing twice before the waiter looks is the same as once.
        try:  # noqa: SIM105 - `suppress` costs three calls whenever a contended lock changes hands
            self._lock.release()
        except RuntimeError:
            pass

    def wait(self, seconds: float) -> bool:
        """Wait at most *seconds* for a ring; return whether it came."""
        return self._lock.acquire(timeout=max(0, seconds))
