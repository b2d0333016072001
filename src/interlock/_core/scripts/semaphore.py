"""The scripts of the semaphore."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from interlock._core.scripts.loader import Variants, load
from interlock._core.scripts.script import ReplyShapeError, done, number


class Numbers(NamedTuple):
    """What the server knows of a semaphore.

    Attributes:
        left: how many are free now that some were taken; negative if they were not.
        free: how many were free; None if there is no semaphore.
        total: how many there are; None if that is not known.
    """

    left: int
    free: int | None
    total: int | None


def taken_or_not(reply: Any) -> int | Numbers:
    """Read the answer to an acquire: how many are left, or the numbers."""
    if reply.__class__ is int:
        answer: int = reply
        return answer
    try:
        left, free, total = reply
        return Numbers(number(left), _permits(free), _permits(total))
    except (TypeError, ValueError):
        raise ReplyShapeError(f"expected numbers of permits, got {reply!r}") from None


def _permits(reply: object) -> int | None:
    """Read a number of permits; nil where there is no semaphore."""
    return None if reply is None else number(reply)


SEMAPHORE_ACQUIRE: Final = Variants("semaphore_acquire", taken_or_not)
SEMAPHORE_RELEASE: Final = Variants("semaphore_release", done)
SEMAPHORE_UNDO: Final = Variants("semaphore_undo", done)
SEMAPHORE_DRAIN: Final = load("semaphore_drain", number)
SEMAPHORE_CHANGE: Final = Variants("semaphore_change", done)
SEMAPHORE_QUERY: Final = Variants("semaphore_query", taken_or_not)
