"""The scripts of the semaphore."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from interlock._core.scripts.replies import ReplyShapeError, done, number, number_or_nil
from interlock._core.scripts.source import Variants


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
    if isinstance(reply, int):
        return reply
    try:
        left, free, total = reply
        return Numbers(number(left), number_or_nil(free), number_or_nil(total))
    except (TypeError, ValueError):
        raise ReplyShapeError(f"expected numbers of permits, got {reply!r}") from None


SEMAPHORE_ACQUIRE: Final = Variants("semaphore_acquire", taken_or_not)
SEMAPHORE_CHANGE: Final = Variants("semaphore_change", done)
