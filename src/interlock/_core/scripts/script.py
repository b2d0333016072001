"""How a Lua text becomes a typed script, and how the common replies are read."""

from __future__ import annotations

import re
from pkgutil import get_data
from typing import TYPE_CHECKING, TypeVar, cast

from interlock._core.model import names
from interlock._core.model.effects import NEVER, Script
from interlock._core.model.foreign_text import safe
from interlock._core.scripts.source import sent
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Eval

R = TypeVar("R")

_INCLUDE = re.compile(r"^ *-- include: *(.*)\n", re.MULTILINE)


class ReplyShapeError(ServerUnavailableError):
    """A reply that the script cannot have given: something else has answered in its place."""

    def __init__(self, message: str) -> None:
        super().__init__(f"not an answer to what was asked: {message}", sent=True)


def load(name: str, decode: Callable[[object], R], *, varies: bool = False) -> Script[R]:
    """Return the script in ``lua/<name>.lua``, which sends no messages."""
    return Script(name, sent(text_of(name)), decode, varies=varies)


class Variants(dict[str, Script[R]]):
    """The variants of the script in ``lua/<name>.lua``, by the command that sends its messages.

    A variant is made when it is first used: a client needs one of them.

    Attributes:
        name: as in `Script`.
    """

    def __init__(self, name: str, decode: Callable[[object], R], *, varies: bool = False) -> None:
        super().__init__()
        self.name = name
        # Read now: later the process may have no file descriptor left.
        self._text = text_of(name)
        self._decode = decode
        self._varies = varies

    def __missing__(self, publish: str) -> Script[R]:
        text = sent(self._text, publish)
        script = self[publish] = Script(self.name, text, self._decode, varies=self._varies)
        return script


def text_of(name: str) -> str:
    """Return the text of ``lua/<name>.lua``; each line ``-- include: X`` becomes ``parts/X.lua``.

    A part may include others.

    Raises:
        LookupError: there is no such part.
    """

    def part(found: re.Match[str]) -> str:
        try:
            return text_of(f"parts/{found[1]}")
        except OSError:
            raise LookupError(
                f"lua/{name}.lua includes {found[1]!r}: lua/parts has no such file"
            ) from None

    return _INCLUDE.sub(part, _read(f"{name}.lua"))


def _read(path: str) -> str:
    # Not from a file: the package may be in a zip archive.
    text = get_data("interlock._core", f"lua/{path}")
    assert text is not None  # every loader of packages can read data
    return text.decode()


def with_queue(keys: tuple[str, ...], publish: str, channel: str) -> tuple[tuple[str, ...], bool]:
    """Return the keys of a call about *keys*, and whether the queue of waiters is the last one.

    Without messages there is no queue. Nor is there one for the first key if another name has the
    same channels.
    """
    if not publish or names.shares_channels(keys[0]):
        return keys, False
    return (*keys, names.waiting_queue(channel)), True


def stand_in_queue(
    call: Eval[R],
    *me: str,
    others_wait: bool,
    keep: float,
    starts: bool = False,
    queue: str = "",
) -> None:
    """Make *call*, an acquire, put the client into the server's queue until it has what it wants.

    Args:
        call: the script.
        me: what the client is called there; for plain permits also where waiters listen.
        others_wait: whether others of the client want the same, so that it stays there.
        keep: seconds for which the queue is kept.
        starts: whether it waits in the name of its hold, which may start at once when a release
            makes it the next one.
        queue: the key of the queue, unless *call* has it.
    """
    about: tuple[str | int, ...] = (*me, int(others_wait), milliseconds(keep))
    if starts:
        about = (*about, 1)
    if queue:
        call.keys, call.spare_keys = (*call.keys, queue), 1
    call.args, call.spare_args = (*call.args, *about), len(about)


class Request:
    """What makes a call count once, however often it arrives: its latch (`upkeep.idempotency`).

    Attributes:
        key: its latch, which remembers the answer.
        old_latch: the latch of an earlier call, which this call removes; a key that never exists
            if there is none.
        ttl: seconds for which the latch is kept.
    """

    __slots__ = ("key", "old_latch", "ttl")

    def __init__(self, key: str, old_latch: str, ttl: float) -> None:
        self.key = key
        self.old_latch = old_latch
        self.ttl = ttl


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


def released(reply: object) -> int:
    """Read nil as 0, which means not done; return any other number as it is."""
    if type(reply) is int and reply >= 0:  # faster than `isinstance`
        return reply
    if reply is None:
        return 0
    raise ReplyShapeError(f"expected nil or a number, got {reply!r}")


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


class Refusal(float):
    """The seconds that are left of another's lease.

    Attributes:
        at: when the server said so, by its clock, in microseconds.
    """

    __slots__ = ("at",)
    at: int


def seconds(reply: object) -> float:
    """Read a PTTL as seconds: infinite if the key never expires, negative if there is no key."""
    if isinstance(reply, int):
        return reply / 1000 if reply != -1 else NEVER
    raise ReplyShapeError(f"expected milliseconds, got {reply!r}")


def grant_or_left(reply: object) -> Grant | float:
    """Read nil as granted, else the seconds that are left of another's lease."""
    if reply is None:
        return GRANTED
    match reply:
        case [int(remaining), bytes(at)] if at.isdigit():
            refusal = Refusal(remaining / 1000 if remaining != -1 else NEVER)  # `seconds` inlined
            refusal.at = int(at[:19])  # Redis counts with 64 bits
            return refusal
        case list():
            raise ReplyShapeError(f"expected milliseconds and microseconds, got {reply!r}")
        case _:
            return seconds(reply)


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


def numbers(reply: object) -> list[int]:
    """Read a list of whole numbers."""
    return [number(item) for item in many(reply)]


def text(reply: object) -> str:
    """Read a string, which is safe to show."""
    if isinstance(reply, bytes):
        return safe(reply.decode(errors="replace"))
    raise ReplyShapeError(f"expected a string, got {reply!r}")
