"""The scripts of the barrier."""

from __future__ import annotations

from typing import Any, Final

from interlock._core.model.effects import Eval
from interlock._core.scripts.loader import Variants, load
from interlock._core.scripts.script import ReplyShapeError, number, pair


def _index(reply: Any) -> int | None:
    """Read how a party has ended: its index, or -1; None while it waits."""
    if reply is None or (reply.__class__ is int and reply >= -1):
        found: int | None = reply
        return found
    raise ReplyShapeError(f"expected nil or an index, got {reply!r}")


def _counts(reply: object) -> tuple[int, bool]:
    waiting, broken = pair(reply)
    return number(waiting), number(broken) == 1


ARRIVE: Final = Variants("barrier_arrive", _index)
END: Final = Variants("barrier_end", _index)

_QUERY: Final = load("barrier_query", _counts)


def barrier_query(waiting: str) -> Eval[tuple[int, bool]]:
    """Tell how many parties wait, and whether the barrier is broken."""
    return Eval(_QUERY, (waiting,), ())
