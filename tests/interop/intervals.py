"""Checks a history of holds and waits: no double grants, no waiting for what is free.

Every object has a capacity, and a claim takes some of it for a time. A lock has a capacity of 1, a
semaphore has its permits. A writer takes all of a read/write lock, a reader a little.

Certain and possible holds are kept apart. A hold is certain from the moment when its owner knew of
it. It stays certain until its owner gave it up or could have lost it. A hold is possible for a bit
longer at either end.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Span:
    """Some of an object's capacity, for a time."""

    who: str
    weight: int
    start: float
    end: float


@dataclass(frozen=True, slots=True)
class Need:
    """A wait, which may take *patience* seconds although what it is for is free."""

    who: str
    weight: int
    start: float
    end: float
    patience: float


@dataclass(slots=True)
class History:
    """What happened to one object: certain and possible holds of it, and waits."""

    name: str
    capacity: int = 1
    certain: list[Span] = field(default_factory=list)
    possible: list[Span] = field(default_factory=list)
    waits: list[Need] = field(default_factory=list)

    def faults(self) -> list[str]:
        """Return what cannot be, each as a sentence."""
        return [*self._given_twice(), *self._left_waiting()]

    def _given_twice(self) -> list[str]:
        faults = []
        for span in self.certain:
            # The sum can only rise where a span begins.
            others = [at for at in self.certain if at.start <= span.start < at.end]
            if sum(other.weight for other in others) > self.capacity:
                faults.append(f"{self.name} was given out twice: {others}")
        return faults

    def _left_waiting(self) -> list[str]:
        faults = []
        for need in self.waits:
            since, gap = self._longest_gap(need)
            if gap > need.patience:
                faults.append(f"{self.name} was free for {gap:.2f} s from {since:.3f}: {need}")
        return faults

    def _longest_gap(self, need: Need) -> tuple[float, float]:
        """Return start and length of the longest time in which *need* could have been met."""
        spans = [at for at in self.possible if at.end > need.start and at.start < need.end]
        edges = sorted(
            {need.start, need.end}
            | {edge for at in spans for edge in (at.start, at.end) if need.start < edge < need.end}
        )
        best, since, run = 0.0, need.start, 0.0
        for left, right in itertools.pairwise(edges):
            taken = sum(at.weight for at in spans if at.start <= left and at.end >= right)
            run = run + right - left if taken + need.weight <= self.capacity else 0.0
            if run > best:
                best, since = run, right - run
        return since, best
