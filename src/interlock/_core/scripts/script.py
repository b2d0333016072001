"""How the common replies are read."""

from __future__ import annotations

from typing import TypeVar, cast

from interlock._core.model.effects import NEVER
from interlock._core.model.foreign_text import safe
from interlock.errors import ServerUnavailableError

R = TypeVar("R")


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
