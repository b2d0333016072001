"""The scripts of the fair lock."""

from __future__ import annotations

from typing import Any, Final

from interlock._core.scripts.replies import GRANTED, Grant, done, freed, pair, seconds
from interlock._core.scripts.source import Variants


class Queued(float):
    """The answer to a waiter that stands in the queue: the seconds within which it must ask again."""

    __slots__ = ()


def _held_or_turn(reply: Any) -> Grant | Queued | float:
    """Read the answer to who asks: a grant, its turn, or the seconds of the other's lease."""
    if reply is None:
        return GRANTED
    left, queued = pair(reply)
    return Queued(seconds(left)) if done(queued) else seconds(left)


FAIR_ASK: Final = Variants("fair_ask", _held_or_turn)
FAIR_RELEASE: Final = Variants("fair_release", freed)
