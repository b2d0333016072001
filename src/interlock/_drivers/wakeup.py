"""The wake-up of a waiting thread."""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket


class Wakeup:
    """Wakes one waiting thread: a lock that is free while there is something to look at.

    Attributes:
        lock: the lock; the waiting thread alone may acquire it.
        bell: a socket to write to when this rings, while the thread waits for messages.
        asleep: the set that this leaves when it rings, while the thread is in it.
    """

    __slots__ = ("asleep", "bell", "lock")

    def __init__(self) -> None:
        self.bell: socket.socket | None = None
        self.asleep: set[Wakeup] | None = None
        self.lock = threading.Lock()
        self.lock.acquire()

    def __call__(self) -> None:
        """Ring: end the present wait, or else the next one."""
        # Ringing twice before the waiter looks is the same as once.
        try:  # noqa: SIM105 - `suppress` costs three calls whenever a contended lock changes hands
            self.lock.release()
        except RuntimeError:
            pass
        asleep, bell = self.asleep, self.bell
        if asleep is not None:
            asleep.discard(self)
        if bell is not None:
            with suppress(OSError):  # it is full, so it rings anyway; or nobody waits any more
                bell.send(b"!")

    def wait(self, seconds: float) -> bool:
        """Wait at most *seconds* for a ring; return whether it came."""
        return self.lock.acquire(timeout=max(0, seconds))
