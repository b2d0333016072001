"""Commands as bytes: hiredis packs and parses, with types that a checker can follow."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import hiredis

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.effects import Eval

_untyped: Any = hiredis

pack = cast("Callable[[tuple[str | int, ...]], bytes]", _untyped.pack_command)
"""Return the bytes of one command."""

Reader = hiredis.Reader
ReplyError: type[Exception] = _untyped.ReplyError
ParserError: type[Exception] = _untyped.HiredisError


def pack_evalsha(call: Eval[object]) -> bytes:
    """Return *call* by its digest."""
    keys = call.keys
    return pack(("EVALSHA", call.script.sha, len(keys), *keys, *call.args))


def pack_eval(call: Eval[object]) -> bytes:
    """Return *call* with its text, for a server that does not know the digest."""
    keys = call.keys
    return pack(("EVAL", call.script.text, len(keys), *keys, *call.args))


def unknown_script(reply: object) -> bool:
    """Return whether the server asks for the text."""
    return isinstance(reply, ReplyError) and str(reply).startswith("NOSCRIPT")
