"""The simulation's time: what is to happen when, one thing after another, and what happened."""

from __future__ import annotations

from collections import deque
from enum import Enum
from heapq import heappop, heappush
from itertools import count
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

TRACE_LENGTH = 200


class Idle(Enum):
    """What an action returns that found nothing to do, such as the timer of a reply that came."""

    IDLE = "idle"


IDLE = Idle.IDLE
Action: TypeAlias = "Callable[[], Idle | None]"
LATE = 1e-6
"""Seconds by which a timer is late, so that whoever slept until a time finds that it has come."""


class Event(NamedTuple):
    """Something that happened.

    Attributes:
        at: seconds since the start.
        who: a process, a client or the server.
        what: in a few words; something else is turned into text only if somebody reads it.
    """

    at: float
    who: str
    what: object

    def __str__(self) -> str:
        return f"{self.at:10.4f}  {self.who:<12} {self.what}"


class Timeline:
    """What is to happen, in the order of its time.

    Args:
        random: the simulation's only source of randomness.

    Attributes:
        now: seconds since the start of the simulation.
        steps: how many things have happened.
        trace: the latest of them.
    """

    def __init__(self, random: Random) -> None:
        self.random = random
        self.now = 0.0
        self.steps = 0
        self.trace: deque[Event] = deque(maxlen=TRACE_LENGTH)
        self._agenda: list[tuple[float, int, Action]] = []
        self._order = count()

    def at(self, when: float, action: Action) -> None:
        """Do *action* at *when*; actions of one time are done in the order in which they came."""
        heappush(self._agenda, (max(when, self.now), next(self._order), action))

    def after(self, seconds: float, action: Action) -> None:
        # Nothing is due before it is asked for.
        heappush(self._agenda, (self.now + seconds, next(self._order), action))

    def step(self) -> bool:
        """Do the next thing; return whether it may have changed anything."""
        self.now, _, action = heappop(self._agenda)
        self.steps += 1
        return action() is not IDLE

    def note(self, who: str, what: object) -> None:
        self.trace.append(Event(self.now, who, what))


class Clock:
    """A clock with an offset and a rate of its own, as every machine has one.

    Args:
        timeline: true time.
        offset: what it shows at the start.
        drift: by how much it is fast, as a fraction.
    """

    def __init__(self, timeline: Timeline, offset: float, drift: float) -> None:
        self._timeline = timeline
        self._offset = offset
        self._rate = 1 + drift

    def __call__(self) -> float:
        return self._offset + self._timeline.now * self._rate

    def when(self, shown: float) -> float:
        """Return the true time at which a timer for *shown* goes off."""
        return max((shown - self._offset) / self._rate, self._timeline.now) + LATE
