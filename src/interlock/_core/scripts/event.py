"""The scripts of the event; calls that change it are `Request` calls."""

from __future__ import annotations

from typing import NamedTuple

from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts.script import (
    ReplyShapeError,
    Request,
    Variants,
    done,
    load,
    many,
    milliseconds,
    number,
    text,
)


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


_EVENT_SET = Variants("event_set", done)
_EVENT_CLEAR = load("event_clear", done)
_EVENT_QUERY = load("event_query", _status)


def event_set(
    event: str, request: Request, mark: str, publish: str, channel: str, idle: float = 0.0
) -> Eval[bool]:
    """Set the event and tell the waiters; it ends *idle* seconds after its last use, 0 for never."""
    args = (milliseconds(request.ttl), mark, channel, milliseconds(idle) if idle else 0)
    return Eval(_EVENT_SET[publish], (event, request.key, request.old_latch), args)


def event_clear(event: str, request: Request, kept: float) -> Eval[bool]:
    """Clear the event; the server remembers the mark of the last `event_set` for *kept* seconds."""
    args = (milliseconds(request.ttl), milliseconds(kept))
    return Eval(_EVENT_CLEAR, (event, request.key, request.old_latch), args)


def event_query(event: str, idle: float = 0.0, *, deadline: float = NEVER) -> Eval[EventStatus]:
    """Tell whether the event is set, and the mark of the last `event_set`; *idle* as for that."""
    args = (milliseconds(idle),) if idle else ()
    return Eval(_EVENT_QUERY, (event,), args, deadline, spare_args=len(args))
