"""The scripts of conditions."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from interlock._core.scripts.replies import News, ReplyShapeError, news_of, number_or_nil, numbers
from interlock._core.scripts.source import Variants, load


class Waits(NamedTuple):
    """The answer to a wait: the lock is released, and the waiter stands in the condition.

    Attributes:
        at: when, by the server's clock, in microseconds.
        numbers: the next holders, if they are this client's; or empty.
        news: what those are told.
    """

    at: int
    numbers: bytes = b""
    news: News | None = None


def _waits(reply: Any) -> Waits | None:
    """Read the answer to a wait; None if the lock is not held."""
    if reply is None:
        return None
    try:
        at, *told = reply
        if not told:
            return Waits(int(at))
        numbers, news = told
        return Waits(int(at), b"" + numbers, news_of(news))
    except (TypeError, ValueError):
        raise ReplyShapeError(f"expected a wait, got {reply!r}") from None


WAITS: Final = {
    "lock_release": Variants("condition_wait", _waits),
    "fenced_release": Variants("fenced_condition_wait", _waits),
    "write_release": Variants("write_condition_wait", _waits),
}
"""What releases a lock for a wait, by the script that releases it."""
NOTIFY: Final = Variants("condition_notify", number_or_nil)
LOOK_AT: Final = load("condition_look", numbers)
