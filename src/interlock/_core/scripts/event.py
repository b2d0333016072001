"""The scripts of the event."""

from __future__ import annotations

from typing import Final, NamedTuple

from interlock._core.scripts.loader import Variants, load
from interlock._core.scripts.script import ReplyShapeError, done, many, number, text


class EventStatus(NamedTuple):
    """What the server knows of an event.

    Attributes:
        is_set: whether it is set.
        mark: identifies the last time that it was set; None if it was not set recently.
    """

    is_set: bool
    mark: str | None


def _status(reply: object) -> EventStatus:
    match many(reply):
        case [is_set]:
            return EventStatus(number(is_set) == 1, None)
        case [is_set, mark]:
            return EventStatus(number(is_set) == 1, text(mark))
        case _:
            raise ReplyShapeError(f"expected one or two, got {reply!r}")


EVENT_CHANGE: Final = Variants("event_change", done)
EVENT_QUERY: Final = load("event_query", _status)
