"""What many workers made of one lock: their turns, and what follows from them.

A turn is three readings of the one monotonic clock that all processes of a machine share: asked,
got, and gave (just before the release). So it does not matter which process, or which language,
a turn comes from, and that no two overlap is checked over all of them.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from benchmarks.measure import NothingCountedError

if TYPE_CHECKING:
    from collections.abc import Sequence


class Turn(NamedTuple):
    """One acquisition, in seconds of the monotonic clock."""

    asked: float
    got: float
    gave: float


class OverlapError(Exception):
    """Two workers held the lock at once."""


def percentile(figures: Sequence[float], share: float) -> float:
    """Return the least of *figures* that at least *share* of them do not exceed."""
    ordered = sorted(figures)
    return ordered[max(0, math.ceil(share * len(ordered)) - 1)]


def check_exclusive(workers: Sequence[Sequence[Turn]], limit: int = 1) -> None:
    """Look for more than *limit* turns at one moment.

    Raises:
        OverlapError: The lock was no lock.
    """
    steps = sorted(
        step for turns in workers for turn in turns for step in ((turn.got, 1), (turn.gave, -1))
    )
    holders = 0
    for moment, change in steps:
        holders += change
        if holders > limit:
            raise OverlapError(f"{holders} workers held the lock at {moment:.6f}, not {limit}")


def summarise(workers: Sequence[Sequence[Turn]], opens: float, closes: float) -> dict[str, float]:
    """Return the figures of the turns that were got between *opens* and *closes*.

    The longest wait is looked for among all that began before *closes*. Some waiters get the lock
    only because the others have stopped. They have waited all the same.

    Raises:
        NothingCountedError: Nobody got the lock between the two.
    """
    counts = [sum(opens <= turn.got < closes for turn in turns) for turns in workers]
    total = sum(counts)
    waits = [
        turn.got - turn.asked
        for turns in workers
        for turn in turns
        if turn.got >= opens and turn.asked < closes
    ]
    if not total:
        raise NothingCountedError("nobody got the lock while it was counted")
    # Served in turn, everybody waits for one turn of each of the others.
    ideal = (closes - opens) / total * (len(workers) - 1)
    return {
        "rate": total / (closes - opens),
        "least": float(min(counts)),
        "mean": total / len(counts),
        "most": float(max(counts)),
        "uneven": max(counts) / min(counts) if min(counts) else math.inf,
        "p50_wait": percentile(waits, 0.50),
        "p99_wait": percentile(waits, 0.99),
        "max_wait": max(waits),
        "p99_of_ideal": percentile(waits, 0.99) / ideal if ideal else math.nan,
    }
