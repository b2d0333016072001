"""The types of keys that hold another kind of object than expected.

The server is asked once, for the text of the error.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import Eval, Script
from interlock._core.scripts.replies import ReplyShapeError, many, number, text

if TYPE_CHECKING:
    from interlock.errors import WrongTypeError

_TEXT = """
local found = {}
for i, key in ipairs(KEYS) do
  found[2 * i - 1] = redis.call('type', key).ok
  found[2 * i] = redis.call('pttl', key)
end
return found
"""


def _pairs(reply: object) -> list[tuple[str, int]]:
    items = many(reply)
    if len(items) % 2:
        raise ReplyShapeError(f"expected pairs, got {reply!r}")
    return [(text(kind), number(pttl)) for kind, pttl in zip(items[::2], items[1::2], strict=True)]


# No object needs this script, so it is not among theirs. A user without the right to send TYPE gets
# an error with less detail.
_TYPES = Script("types", _TEXT, _pairs)


def types_of(error: WrongTypeError) -> Eval[list[tuple[str, int]]]:
    """Return the script that asks for the type and the TTL of each key of *error*."""
    return Eval(_TYPES, error.keys, ())


def name(error: WrongTypeError, prefix: str | None) -> None:
    """Tell in *error* what users call its keys, without their *prefix*."""
    message = str(error)
    for key in error.keys if prefix else ():
        # A key that is not called like its object has the name in braces.
        shown = key.removeprefix(prefix or "").replace(f"{{{prefix}", "{", 1)
        message = message.replace(repr(key), repr(shown))
    error.args = (message,)


def describe(error: WrongTypeError, reply: object) -> None:
    """Add to *error* the types and TTLs that *reply* tells."""
    found = dict(zip(error.keys, _TYPES.decode(reply), strict=False))
    error.found = {key: kind for key, (kind, _) in found.items() if kind != "none"}
    if not error.found:
        return  # the keys are gone by now
    told = [
        f"{key!r} is a {kind}" + (f" that ends in {pttl / 1000:.3g} s" if pttl >= 0 else "")
        for key, (kind, pttl) in found.items()
        if kind != "none"
    ]
    message = f"{error.args[0]} (found: {', '.join(told)})"
    if any(kind == "string" and pttl >= 0 for kind, pttl in found.values()):
        message += (
            ". Another library may hold a lock there: "
            "redis-py's Lock, for one, is a string with a TTL"
        )
    error.args = (message,)
