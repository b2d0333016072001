"""The scripts of gates: the count-down latch and the event."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock._core.scripts.replies import done, number, pair, text
from interlock._core.scripts.source import Variants, load


class State(NamedTuple):
    """What the server knows of a gate.

    Attributes:
        left: what is left until it opens: the count of a latch, or 1 while an event is not set.
        mark: identifies the last opening, of a latch its last end, ``"open <mark>"`` or ``"deleted
            <mark>"``; None if it was not opened recently.
    """

    left: int
    mark: str | None


def _state(reply: object) -> State:
    left, mark = pair(reply)
    return State(number(left), None if mark is None else text(mark))


LATCH_CHANGE: Final = Variants("latch_change", done)
LATCH_COUNT: Final = Variants("latch_change", number)
LATCH_QUERY: Final = load("latch_query", _state)
EVENT_CHANGE: Final = Variants("event_change", done)
EVENT_QUERY: Final = load("event_query", _state)
