"""Commands as bytes: hiredis packs and parses, with types that a checker can follow."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, cast

import hiredis

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Eval, Script

_untyped: Any = hiredis

_pack = cast("Callable[[tuple[str, ...]], bytes]", _untyped.pack_command)

_packed_in_c: Callable[[tuple[object, ...]], bytes | None]
try:
    from interlock._links._exchange import packed as _packed_in_c
except ImportError:  # there was no compiler, or the C part is older than its source

    def _packed_in_c(_: tuple[object, ...], /) -> bytes | None:
        return None


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


def pack_eval(call: Eval[object], *, asking: bool = False) -> bytes:
    """Return the bytes of *call* with the text of its script, which the server may not know.

    Args:
        call: the script.
        asking: whether the node is just taking over the slot. Then the arguments about the queue
            are left out.
    """
    keys = call.keys
    args = call.args[: len(call.args) - call.queued] if asking else call.args
    return pack(("EVAL", call.script.text, len(keys), *keys, *args))


def unknown_script(reply: object) -> bool:
    """Return whether *reply* says that the server does not know the script."""
    return isinstance(reply, ReplyError) and str(reply).startswith("NOSCRIPT")
