"""What follows from the turns of many workers, and the middle of several slices.

A turn is three readings of the one monotonic clock that the processes of a machine share: asked,
got, and gave, just before the release. So it does not matter which process, or which language, a
turn comes from.
"""

from __future__ import annotations

import math
import statistics
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence


class Turn(NamedTuple):
    """One acquisition, in seconds of the monotonic clock."""

    asked: float
    got: float
    gave: float


class OverlapError(Exception):
    """Two workers held one lock at once."""


class NothingCountedError(Exception):
    """The window closed before anybody got a lock; a longer one may do."""


def turns(times: Sequence[float]) -> list[Turn]:
    """Return the turns of a worker from its *times*, three for each."""
    return [Turn(*times[at : at + 3]) for at in range(0, len(times), 3)]


def check_exclusive(workers: Sequence[Sequence[Turn]]) -> None:
    """Look for two turns at one moment.

    Raises:
        OverlapError: The lock was no lock.
    """
    ordered = sorted((turn for each in workers for turn in each), key=lambda turn: turn.got)
    last = -math.inf
    for turn in ordered:
        if turn.got < last:
            raise OverlapError(f"two workers held the lock for {last - turn.got:.6f} s")
        last = max(last, turn.gave)


def percentile(values: Sequence[float], share: float) -> float:
    """Return the least of *values* that at least *share* of them do not exceed."""
    ordered = sorted(values)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def summarise(workers: Sequence[Sequence[Turn]], opens: float, closes: float) -> dict[str, float]:
    """Return the figures of the turns that began between *opens* and *closes*.

    A wait counts if it overlaps that window. Some waiters get the lock only because the others have
    stopped; they have waited all the same.

    Raises:
        NothingCountedError: Nobody got a lock between the two.
    """
    counts = [sum(opens <= turn.got < closes for turn in each) for each in workers]
    if not any(counts):
        raise NothingCountedError("nobody got a lock while turns were counted")
    waits = [
        turn.got - turn.asked
        for each in workers
        for turn in each
        if turn.got >= opens and turn.asked < closes
    ]
    return {
        "turns": float(sum(counts)),
        "rate": sum(counts) / (closes - opens),
        "uneven": max(counts) / min(counts) if min(counts) else math.inf,
        "p99": percentile(waits, 0.99),
        "longest": max(waits),
    }


def median(slices: Sequence[Mapping[str, float]], name: str) -> float:
    """Return the median of the figure *name*; nan if there is none."""
    return statistics.median([each[name] for each in slices]) if slices else math.nan


def ratios(
    ours: Sequence[Mapping[str, float]], theirs: Sequence[Mapping[str, float]], name: str
) -> list[float]:
    """Divide the figures *name* slice by slice, because only neighbours compare."""
    return [one[name] / two[name] for one, two in zip(ours, theirs, strict=True) if two[name]]
