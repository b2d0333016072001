"""What keys hold in place of the object that was expected: asked once, for the text of the error."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING

from interlock._core.model.effects import Eval, Script
from interlock._core.scripts.replies import ReplyShapeError, many, number, text
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from interlock._core.model.effects import Op
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


def explain(error: WrongTypeError, prefix: str | None) -> Op[None]:
    """Tell in *error* what its keys hold, and what users call them, without their *prefix*."""
    message = str(error)
    with suppress(InterlockError):
        found = dict(zip(error.keys, (yield from Eval(_TYPES, error.keys, (), 0.0)), strict=False))
        error.found = {key: kind for key, (kind, _) in found.items() if kind != "none"}
        if error.found:  # else the keys are gone by now
            message += _told(found)
    for key in error.keys if prefix else ():
        # A key that is not called like its object has the name in braces.
        shown = key.removeprefix(prefix or "").replace(f"{{{prefix}", "{", 1)
        message = message.replace(repr(key), repr(shown))
    error.args = (message,)


def _told(found: dict[str, tuple[str, int]]) -> str:
    told = [
        f"{key!r} is a {kind}" + (f" that ends in {pttl / 1000:.3g} s" if pttl >= 0 else "")
        for key, (kind, pttl) in found.items()
        if kind != "none"
    ]
    lock_of_another = (
        ". Another library may hold a lock there: redis-py's Lock, for one, is a string with a TTL"
    )
    may = any(kind == "string" and pttl >= 0 for kind, pttl in found.values())
    return f" (found: {', '.join(told)})" + (lock_of_another if may else "")
