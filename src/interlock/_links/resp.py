"""Commands to bytes, and bytes to replies, in C or in Python.

hiredis is not used: it turns on the interpreter lock (GIL) of a Python that runs without. The part
in C is as fast.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from interlock._core.model.foreign_text import safe

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Eval

R = TypeVar("R")

LONGEST_REPLY = 1 << 26
"""Bytes. No answer to a lock's command comes near it."""
DEEPEST = 16
"""Lists in lists."""
LONGEST = 1 << 30
"""Bytes of a text, or replies in a list."""
HEAD = 24
"""Bytes of a number's line."""
SHORTEST = 3
"""Bytes of a reply."""

NO_REPLY = "this is no reply of a server"
_NUMBER = re.compile(rb"-?[0-9]{1,19}")


class ReplyError(Exception):
    """An error that the server sent; its text is safe to show."""

    def __init__(self, text: str) -> None:
        super().__init__(safe(text))


class ParserError(Exception):
    """The server sent what is no reply."""


class _LackingError(Exception):
    """A reply is not whole: it lacks so many bytes at least, or is no reply (-1)."""

    def __init__(self, size: int) -> None:
        super().__init__(size)
        self.size = size


def _reply(data: bytes, place: int, error: type[Exception], depth: int = 0) -> tuple[object, int]:
    """Return the reply at *place*, within so many lists, and where it ends."""
    kind, end = data[place : place + 1], data.find(b"\r\n", place)
    counted = kind in (b":", b"$", b"*")
    if not (counted or kind in (b"", b"+", b"-")) or depth > DEEPEST:
        raise _LackingError(-1)
    if end < 0:
        raise _LackingError(-1 if counted and len(data) - place > HEAD else 1)
    line, place = data[place + 1 : end], end + 2
    if not counted:
        return line if kind == b"+" else error(line.decode(errors="replace")), place
    number = int(line) if _NUMBER.fullmatch(line) else 1 << 64
    if not (-(1 << 63) <= number < 1 << 63 if kind == b":" else -1 <= number <= LONGEST):
        raise _LackingError(-1)
    if kind == b":" or number < 0:
        return number if kind == b":" else None, place
    if kind == b"$":
        end = place + number
        if len(data) < end + 2 or data[end : end + 2] != b"\r\n":
            raise _LackingError(max(end + 2 - len(data), 0) or -1)
        return data[place:end], end + 2
    values: list[object] = []
    for left in range(number - 1, -1, -1):
        try:
            value, place = _reply(data, place, error, depth + 1)
        except _LackingError as lacking:
            lacking.size += left * SHORTEST if lacking.size > 0 else 0
            raise
        values.append(value)
    return values, place


def parse_all_in_python(
    data: bytes, error: type[Exception], /
) -> list[object] | tuple[list[object], int, int]:
    """Return all replies in *data*; those that are errors of the server have the class *error*.

    If it ends within a reply, return also where that begins, and how many bytes it lacks at least:
    -1 if it is no reply. It keeps nothing between two calls, so threads, signal handlers and
    finalizers may call it at any time.
    """
    values: list[object] = []
    place = 0
    while place < len(data):
        try:
            value, place = _reply(data, place, error)
        except _LackingError as lacking:
            return values, place, lacking.size
        values.append(value)
    return values


def pack_in_python(parts: Sequence[str | int]) -> bytes:
    """Return the bytes of one command."""
    texts = [str(part).encode() for part in parts]
    head = b"*%d\r\n" % len(texts)
    return head + b"".join([b"$%d\r\n%b\r\n" % (len(text), text) for text in texts])


_packed_in_c: Callable[[tuple[object, ...]], bytes | None]
parse_all: Callable[[bytes, type[Exception]], list[object] | tuple[list[object], int, int]]
try:
    from interlock._links._exchange import packed as _packed_in_c
    from interlock._links._exchange import parse_all
except ImportError:  # there was no compiler, or the C part is older than its source
    parse_all = parse_all_in_python

    def _packed_in_c(_: tuple[object, ...], /) -> bytes | None:
        return None


_SPARE_REFUSED = re.compile(
    r"TRYAGAIN Multiple keys request"
    r"|(?P<right>NOPERM (?!.*script).*access (?:a key|one of the keys))"
)
"""Errors before a script begins: some of the keys are missing while their slot moves, or the user
has no right to some of the keys."""

PARSER = "Python" if parse_all is parse_all_in_python else "C"
"""What parses the replies."""


class Replies:
    """Collects what a server sends, and parses all replies that are whole.

    A Ctrl-C may lose what is just being fed, and the replies in it. It loses nothing that was fed
    before.

    Attributes:
        ready: the replies that were fed and not taken yet.
        wrong: why no further reply can be read; empty while all is well.
    """

    def __init__(self) -> None:
        self.ready: deque[object] = deque()
        self.wrong = ""
        # How many bytes the next reply lacks at least, and the pieces of it. They change together,
        # and no piece is dropped before it was parsed: so a Ctrl-C parts no two of them.
        self._begun: tuple[int, list[bytes]] = _NOTHING

    def read(self, data: bytes) -> list[object]:
        """Return the replies that are whole with *data*, which the server sent."""
        missing, pieces = self._begun
        if missing:
            pieces.append(data)
            missing -= len(data)
            if missing > 0:
                self._begun = missing, pieces
                return []
            data = b"".join(pieces)
        found = parse_all(data, ReplyError)
        if isinstance(found, list):
            self._begun = _NOTHING
            return found
        values, end, missing = found
        self._begun = missing, [data[end:]]
        if missing < 0:
            self.wrong = NO_REPLY
        elif len(data) - end + missing > LONGEST_REPLY:
            self.wrong = f"a reply of more than {LONGEST_REPLY} bytes"
        return values

    def feed(self, data: bytes) -> None:
        """Make `ready` what is whole with *data*, which the server sent."""
        self.ready.extend(self.read(data))

    def gets(self) -> object:
        """Return the next reply; False if it is not whole.

        Raises:
            ParserError: there is none.
        """
        if self.ready:
            return self.ready.popleft()
        if self.wrong:
            raise ParserError(self.wrong)
        return False


_NOTHING: tuple[int, list[bytes]] = 0, []


def pack(parts: Sequence[str | int]) -> bytes:
    """Return the bytes of one command."""
    return _packed_in_c(tuple(parts)) or pack_in_python(parts)


ASKING = pack(("ASKING",))
"""Goes before a command to a node that is just taking over its slot."""


def pack_evalsha(call: Eval[object]) -> bytes:
    """Return the bytes of *call* with the digest of its script."""
    if call.packed is None:
        call.packed = pack(("EVALSHA", call.script.sha, len(call.keys), *call.keys, *call.args))
    return call.packed


def pack_eval(call: Eval[object]) -> bytes:
    """Return the bytes of *call* with the text of its script, which the server may not know."""
    return pack(("EVAL", call.script.text, len(call.keys), *call.keys, *call.args))


def send_texts(calls: Sequence[Eval[object]]) -> None:
    """Send the text with the first call of each script in *calls*.

    It is for calls that nobody can send again. A server that stands still may execute them later.
    If it did not know a script, it would refuse the digest.
    """
    for call in {call.script: call for call in reversed(calls)}.values():
        call.packed = pack_eval(call)


def without_spare(call: Eval[R]) -> Eval[R]:
    """Return *call* with the keys that it cannot do without, and the arguments that go with those."""
    if not call.spare_keys:
        return call
    args = call.args[: len(call.args) - call.spare_args]
    keys = call.keys[: -call.spare_keys]
    return replace(call.anew(), keys=keys, args=args, packed=None, spare_args=0, spare_keys=0)


def again(call: Eval[R], reply: object, refused: dict[str, str]) -> Eval[R] | None:
    """Return what to send, with its text, after *reply* to *call*; None if *reply* is final.

    The server has not executed anything then. A script that was stopped half-way has another error.

    *refused* takes what the server refused for want of a right, while the call goes on: the event of
    the log, and the server's words.
    """
    if not isinstance(reply, ReplyError):
        return None
    error = str(reply)
    if error.startswith("NOSCRIPT") and call.packed != pack_eval(call):
        other = call.anew()
    elif call.spare_keys and (found := _SPARE_REFUSED.match(error)):
        other = without_spare(call)
        if found["right"]:
            refused["keys.refused"] = error
            # The call may be kept for the next time.
            call.packed = pack_evalsha(other)
    else:
        return None
    other.packed = pack_eval(other)
    return other
