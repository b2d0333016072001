"""The scripts of the count-down latch; calls that set or lower the count are `Request` calls."""

from __future__ import annotations

from interlock._core.model.effects import NEVER, Eval
from interlock._core.model.names import latch_ending, latch_total
from interlock._core.scripts.script import (
    Request,
    Variants,
    done,
    load,
    milliseconds,
    number,
    pair,
    text,
)


class LatchStatus:
    """What the server knows of a latch.

    Attributes:
        count: what is left to be counted down; 0 if there is no latch.
        ending: how it ended last, ``"open <mark>"`` or ``"deleted <mark>"``; None if it did not
            end recently.
    """

    __slots__ = ("count", "ending")

    def __init__(self, count: int, ending: str | None) -> None:
        self.count = count
        self.ending = ending


def _status(reply: object) -> LatchStatus:
    count, ending = pair(reply)
    return LatchStatus(number(count), None if ending is None else text(ending))


_LATCH_SET_UP = Variants("latch_set_up", number)
_LATCH_TRY_SET = Variants("latch_try_set", done)
_LATCH_COUNT_DOWN = Variants("latch_count_down", done)
_LATCH_QUERY = load("latch_query", _status)
_LATCH_DELETE = Variants("latch_delete", done)


def latch_try_set(
    latch: str, request: Request, count: int, publish: str, channel: str
) -> Eval[bool]:
    """Set the count of the latch to *count*; False if it has a count already."""
    keys = (latch, request.key, request.old_latch, latch_total(latch))
    args = (count, milliseconds(request.ttl), channel)
    return Eval(_LATCH_TRY_SET[publish], keys, args, spare_keys=1)


def latch_set_up(latch: str, request: Request, count: int, publish: str, channel: str) -> Eval[int]:
    """Set the count once in the life of the latch, and tell the count that it was set up with.

    If that is not known, the answer is what is left, below 0.
    """
    keys = (latch, latch_total(latch), request.key, request.old_latch)
    args = (count, milliseconds(request.ttl), channel)
    return Eval(_LATCH_SET_UP[publish], keys, args)


def latch_count_down(
    latch: str,
    request: Request,
    mark: str,
    kept: float,
    publish: str,
    channel: str,
    *,
    count: int | None = None,
    ends: float = 0.0,
) -> Eval[bool]:
    """Lower the count by one; at 0, open the latch.

    If the latch was never set up, set *count* first; it ends in *ends* seconds, or never with 0.
    """
    call = Eval(
        _LATCH_COUNT_DOWN[publish],
        (latch, request.key, request.old_latch, latch_ending(latch)),
        (milliseconds(request.ttl), mark, milliseconds(kept), channel),
    )
    if count is not None:
        call.keys = (*call.keys, latch_total(latch))
        call.args = (*call.args, count, milliseconds(ends) if ends else 0)
        call.spare_keys, call.spare_args = 1, 2
    return call


def latch_query(latch: str, *, deadline: float = NEVER) -> Eval[LatchStatus]:
    """Tell the count, and how the latch ended last."""
    return Eval(_LATCH_QUERY, (latch, latch_ending(latch)), (), deadline)


def latch_delete(latch: str, mark: str, kept: float, publish: str, channel: str) -> Eval[bool]:
    """Remove the latch; False if there is none."""
    keys = (latch, latch_ending(latch), latch_total(latch))
    args = (mark, milliseconds(kept), channel)
    return Eval(_LATCH_DELETE[publish], keys, args, spare_keys=1)
