"""How the replies of the scripts are read, with which milliseconds and microseconds end."""

from __future__ import annotations

from typing import Any, Final, NamedTuple, cast

from interlock._core.model.effects import NEVER
from interlock._core.model.foreign_text import safe
from interlock.errors import ServerUnavailableError


class ReplyShapeError(ServerUnavailableError):
    """A reply that the script cannot have given: something else has answered in its place."""

    def __init__(self, message: str) -> None:
        super().__init__(f"not an answer to what was asked: {message}", sent=True)


def milliseconds(seconds: float) -> int:
    """Return *seconds* in milliseconds as Redis takes them: whole, and never 0."""
    return int(seconds * 1000 + 0.5) or 1


def done(reply: object) -> bool:
    """Read 1 as done, nil or 0 as not done."""
    if reply is None or reply == 0:
        return False
    if reply == 1:
        return True
    raise ReplyShapeError(f"expected nil, 0 or 1, got {reply!r}")


class Grant:
    """The answer of an acquire that succeeded.

    Attributes:
        token: the fencing token; None if the lock has none.
        source: what keeps the token above all earlier ones; empty if the lock has none.
    """

    __slots__ = ("source", "token")

    def __init__(self, token: int | None = None, source: str = "") -> None:
        self.token = token
        self.source = source


GRANTED = Grant()


def seconds(reply: object) -> float:
    """Read a PTTL as seconds: infinite if the key never expires, negative if there is no key."""
    if isinstance(reply, int):
        return reply / 1000 if reply != -1 else NEVER
    raise ReplyShapeError(f"expected milliseconds, got {reply!r}")


def grant_or_left(reply: object) -> Grant | float:
    """Read nil as granted, else the seconds that are left of another's lease."""
    return GRANTED if reply is None else seconds(reply)


def many(reply: object) -> list[object]:
    """Read a list of anything."""
    if isinstance(reply, list):
        return cast("list[object]", reply)
    raise ReplyShapeError(f"expected a list, got {reply!r}")


def pair(reply: object) -> tuple[object, object]:
    """Read a list of two."""
    match many(reply):
        case [first, second]:
            return first, second
        case _:
            raise ReplyShapeError(f"expected two, got {reply!r}")


def kept(reply: object) -> list[bool]:
    """Read a list of 1 and 0 as booleans."""
    if reply == [1]:
        return [True]  # at once: an extension ends here
    return [done(item) for item in many(reply)]


def number(reply: object) -> int:
    """Read a whole number."""
    if isinstance(reply, int):
        return reply
    raise ReplyShapeError(f"expected a number, got {reply!r}")


def number_or_nil(reply: object) -> int | None:
    """Read a whole number, or nil as None."""
    return None if reply is None else number(reply)


def numbers(reply: object) -> list[int]:
    """Read a list of whole numbers."""
    return [number(item) for item in many(reply)]


def counts(reply: object) -> tuple[int, int]:
    """Read two whole numbers."""
    one, other = pair(reply)
    return number(one), number(other)


def text(reply: object) -> str:
    """Read a string, which is safe to show."""
    if isinstance(reply, bytes):
        return safe(reply.decode(errors="replace"))
    raise ReplyShapeError(f"expected a string, got {reply!r}")


# The replies of scripts with a queue.


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
    came: int
    readers: tuple[bytes, ...]


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
        left, at, length, joined, missed, came, *readers = reply
        missed = b"" + missed  # nothing but bytes
        told = seconds(left), int(at), length, joined == 1, missed, int(came)
        return Refusal(*told, tuple(readers))
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
