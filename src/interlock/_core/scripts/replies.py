"""How the replies of the scripts with a queue are read."""

from __future__ import annotations

from typing import Any, Final, NamedTuple

from interlock._core.scripts.script import GRANTED, Grant, ReplyShapeError, seconds


class Refusal(NamedTuple):
    """The answer to a waiter that stands in the queue now.

    Attributes:
        left: seconds that are left of the other's lease; negative if nobody holds the lock.
        at: when the server said so, by its clock, in microseconds.
        length: how many wait; 0 if it stands in no queue, for want of a right to that.
        joined: whether it has joined just now.
        missed: the number of a hold of this client that was granted the lock a while ago; or empty,
            or numbers of readers, with spaces between them.
        came: its place: when it came, by the server's clock, in microseconds; 0 without a queue.
        readers: some who hold a read lock, each with its depth.
    """

    left: float
    at: int
    length: int
    joined: bool
    missed: bytes
    came: int = 0
    readers: tuple[bytes, ...] = ()


class News(NamedTuple):
    """What a waiter is told.

    Attributes:
        at: when it was granted the lock, by the server's clock, in microseconds; 0: it shall look.
        token: its fencing token, if the granting script drew one.
        open: whether a release granted it, so that it may be Java's turn after it.
    """

    at: int
    token: int | None = None
    open: bool = False


LOOK: Final = News(0)


def is_grant(answer: object) -> bool:
    """Return whether a decoded *answer* is a grant."""
    return isinstance(answer, Grant)


_SOURCES = {b"epoch": "epoch", b"clock": "clock", b"counter": "counter"}


def news_of(told: bytes) -> News:
    """Read the *told* part of a message or a reply."""
    try:
        at, token, opened = told.split(b"|")
        return News(int(at), int(token) if token else None, opened == b"1")
    except (AttributeError, TypeError, ValueError):
        raise ReplyShapeError(f"expected news, got {told!r}") from None


def held_or_refused(reply: Any) -> Grant | Refusal:
    """Read the answer to a waiter that asks."""
    try:  # not `match`, which takes a tenth of a pair's instructions
        if len(reply) == 2:  # noqa: PLR2004
            return Grant(reply[0], _SOURCES[reply[1]]) if reply[1] else GRANTED
        left, at, length, joined, missed, came = reply
        missed = b"" + missed  # nothing but bytes
        return Refusal(seconds(left), int(at), length, joined == 1, missed, int(came))
    except (TypeError, ValueError, LookupError):
        raise ReplyShapeError(f"expected a grant or a refusal, got {reply!r}") from None


def freed(reply: Any) -> int | tuple[bytes, News] | None:
    """Read the answer to a release.

    Return 1 if it held the lock, 0 if it only stood in the queue, None if neither; or the number of
    a hold of this client's that is next (of readers several), and the news for it. If the news are `LOOK`, the release
    found nothing.
    """
    if reply.__class__ is int or reply is None:
        return reply
    try:
        if not reply:
            return None
        return b"" + reply[0], news_of(reply[1]) if len(reply) > 1 else LOOK
    except (TypeError, LookupError):
        raise ReplyShapeError(f"expected what was released, got {reply!r}") from None


def held_or_left(reply: Any) -> Grant | float:
    """Read the answer to the one-key try for a lock with tokens."""
    try:
        return seconds(reply) if reply.__class__ is int else Grant(reply[0], _SOURCES[reply[1]])
    except (TypeError, LookupError):
        raise ReplyShapeError(f"expected a token, got {reply!r}") from None
