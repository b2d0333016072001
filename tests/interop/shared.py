"""What the torture run shares out, and the processes that use it."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Callable

    from .agent import Agent

LEASE = 5.0
"""Seconds, of holds that are renewed; also how long a fair waiter keeps its place."""

ALL = 1000
"""What a writer takes of a read/write lock."""

SLACK = 3.0
"""Seconds that this machine may be slow, on top of the poll cap."""


@dataclass(frozen=True, slots=True)
class Object:
    """Something that everybody shares; a hold takes its weight of the capacity.

    A waiter may overlook for *patience* seconds that it is free. Its holds are counted under the name
    *share*. Commands also need the rest.
    """

    kind: str
    capacity: int = 1
    weight: int = 1
    patience: float = SLACK
    share: str | None = None
    rest: tuple[tuple[str, Any], ...] = ()


REENTRANT = ("lock", "fair", "fenced", "spin", "read", "write", "multi")


def _members(name: str) -> tuple[tuple[str, Any], ...]:
    return (("members", tuple({"kind": "lock", "name": f"{name}{n}"} for n in range(3))),)


OBJECTS = {
    "plain": Object("lock"),
    "other": Object("lock"),
    "fenced": Object("fenced"),
    # Nobody is told: the back-off is short.
    "spin": Object("spin"),
    # Somebody who died or froze in the queue is in the way for as long as its place lasts.
    "fair": Object("fair", patience=4 * LEASE + SLACK),
    # A reader's message wakes one of Java's waiters in a process, no matter which. The others look
    # again after the lease.
    "reading": Object("read", ALL, 1, LEASE + SLACK, "read-write"),
    "writing": Object("write", ALL, ALL, LEASE + SLACK, "read-write"),
    # Redisson waits for each member in turn and begins again.
    "multi": Object("multi", patience=LEASE + 2 * SLACK, rest=_members("member")),
    "red": Object("red", patience=LEASE + 2 * SLACK, rest=_members("majority")),
    "forced": Object("lock", patience=LEASE + SLACK),
    "group": Object("group", rest=(("values", ("a", "b", "c")),)),
    "permits": Object("semaphore", 3),
    "leased": Object("leased_semaphore", 2),
}


class Slot:
    """A process and its successors.

    Args:
        language: what it is written in.
        start: makes the next one.
    """

    def __init__(self, language: str, start: Callable[[], Agent]) -> None:
        self.language = language
        self.pauses: list[tuple[float, float]] = []
        self._start = start
        self._up = threading.Event()
        self.agent = start()
        self._up.set()

    def present(self) -> Agent:
        """Return the process, once there is one."""
        assert self._up.wait(60)
        return self.agent

    def pause(self, seconds: float) -> None:
        began = time.monotonic()
        # At once: who judges meanwhile must know of it.
        self.pauses.append((began, began + seconds + SLACK))
        self.agent.pause()
        time.sleep(seconds)  # a process that is really stopped
        self.agent.resume()
        # It needs a moment until it has caught up.
        self.pauses[-1] = (began, time.monotonic() + 1)

    def kill_and_restart(self) -> None:
        self._up.clear()
        self.agent.kill()
        self.agent = self._start()
        self._up.set()

    def paused(self, start: float, end: float) -> float | None:
        """Return when the first pause began that touches the time from *start* to *end*."""
        return min((at for at, until in self.pauses if at < end and until > start), default=None)


def may_vanish(slot: Slot, name: str) -> bool:
    """Return whether a hold may vanish: by force, or through a fault of Redisson.

    Redisson's group lock does not prolong a hash that has less than a millisecond left, even when
    it has just taken values in it. So an owner that acquires just when the last holder's lease ends
    loses its hold at once.
    """
    return name == "forced" or (name == "group" and slot.language == "java")


def stays_after_loss(slot: Slot, name: str) -> bool:
    """Return whether a lost hold may come back, and stay for as long as its process lives.

    Redisson's group lock still counts a hold whose lease has ended, when the same thread acquires
    again. The next release leaves one entry then, which may even be renewed.
    """
    return name == "group" and slot.language == "java"
