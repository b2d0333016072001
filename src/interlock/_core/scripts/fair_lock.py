"""The scripts of the fair lock."""

from __future__ import annotations

from typing import Any, Final

from interlock._core.model.names import fair_queue, fair_timeouts
from interlock._core.scripts.loader import Variants
from interlock._core.scripts.replies import freed
from interlock._core.scripts.script import GRANTED, Grant, done, pair, seconds


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


def fair_keys(lock: str) -> tuple[str, str, str]:
    """Return the keys of a lock, the list of its waiters, and the deadlines of their places."""
    return lock, fair_queue(lock), fair_timeouts(lock)
