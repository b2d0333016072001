"""Commands as bytes: hiredis packs and parses, with types that a checker can follow."""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar, cast

import hiredis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Eval, Script

R = TypeVar("R")

_untyped: Any = hiredis

_pack = cast("Callable[[tuple[str, ...]], bytes]", _untyped.pack_command)

_packed_in_c: Callable[[tuple[object, ...]], bytes | None]
try:
    from interlock._links._exchange import packed as _packed_in_c
except ImportError:  # there was no compiler, or the C part is older than its source

    def _packed_in_c(_: tuple[object, ...], /) -> bytes | None:
        return None


_SPARE_REFUSED = re.compile(
    r"TRYAGAIN Multiple keys request"
    r"|(?P<right>NOPERM (?!.*script).*access (?:a key|one of the keys))"
)
"""Errors before a script begins: some of the keys are missing while their slot moves, or the user
has no right to some of the keys."""

LONGEST_REPLY = 1 << 26
"""Bytes. No answer to a lock's command comes near it."""

Reader = hiredis.Reader
ReplyError: type[Exception] = _untyped.ReplyError
ParserError: type[Exception] = _untyped.HiredisError


def pack(parts: Sequence[str | int]) -> bytes:
    """Return the bytes of one command."""
    return _packed_in_c(tuple(parts)) or pack_in_python(parts)


def pack_in_python(parts: Sequence[str | int]) -> bytes:
    """Do the same as `pack`, with hiredis."""
    # hiredis 3.5.0 turns numbers into text by itself, and crashes the process when a Ctrl-C
    # strikes just there.
    return _pack(tuple(map(str, parts)))


ASKING = pack(("ASKING",))
"""Goes before a command to a node that is just taking over its slot."""


@lru_cache(maxsize=256)
def _packed(script: Script[object], keys: tuple[str, ...], args: tuple[str | int, ...]) -> bytes:
    """Return a command, often from the cache: a lock's commands repeat, and packing is slower."""
    return pack(("EVALSHA", script.sha, len(keys), *keys, *args))


def pack_evalsha(call: Eval[object]) -> bytes:
    """Return the bytes of *call* with the digest of its script."""
    if call.packed is None:
        script, keys = call.script, call.keys
        if script.varies:
            return pack(("EVALSHA", script.sha, len(keys), *keys, *call.args))
        call.packed = _packed(script, keys, call.args)
    return call.packed


def pack_eval(call: Eval[object]) -> bytes:
    """Return the bytes of *call* with the text of its script, which the server may not know."""
    return pack(("EVAL", call.script.text, len(call.keys), *call.keys, *call.args))


def without_spare(call: Eval[R]) -> Eval[R]:
    """Return *call* without its spare key, and without the arguments that go with that key."""
    if not call.spare:
        return call
    args = call.args[: len(call.args) - call.queued]
    return replace(call, keys=call.keys[:-1], args=args, packed=None, queued=0, spare=False)


class Attempt:
    """The sendings of *call* until the server executes it or refuses it for good.

    Args:
        call: the script, which was sent already.
        text: whether it was sent with the text of the script.
    """

    __slots__ = ("_call", "_text")

    def __init__(self, call: Eval[object], *, text: bool = False) -> None:
        self._call = call
        self._text = text

    def again(self, reply: object) -> bytes | None:
        """Return what to send after *reply*; None if *reply* is final.

        The server has not executed anything then. A script that was stopped half-way has another
        error.
        """
        if not isinstance(reply, ReplyError):
            return None
        error, call = str(reply), self._call
        if error.startswith("NOSCRIPT") and not self._text:
            self._text = True
        elif call.spare and (refused := _SPARE_REFUSED.match(error)):
            self._call = without_spare(call)
            if refused["right"] and not call.script.varies:
                # The call may be kept for the next time.
                call.packed = pack_evalsha(self._call)
        else:
            return None
        return pack_eval(self._call) if self._text else pack_evalsha(self._call)
