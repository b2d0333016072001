"""The scripts of the fenced lock that draw tokens; all others are the plain lock's."""

from __future__ import annotations

from typing import Any

from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts.script import (
    Grant,
    ReplyShapeError,
    Variants,
    grant_or_left,
    load,
    milliseconds,
    number,
    released,
    seconds,
    with_queue,
)

_SOURCES = {b"epoch": "epoch", b"clock": "clock", b"counter": "counter"}
_ENDS = [[source] for source in _SOURCES]


def _token_or_left(reply: Any) -> Grant | float:
    if reply.__class__ is list:  # `match` takes a tenth of a pair's instructions
        if reply[:1] == [1] and reply[2:] in _ENDS:
            return Grant(number(reply[1]), _SOURCES[reply[2]])
        if reply[:-1] == [0]:
            return seconds(reply[1])
        if reply[:1] == [0]:
            return grant_or_left(reply[1:])
    raise ReplyShapeError(f"expected {{1, token, source}} or {{0, milliseconds}}, got {reply!r}")


_FENCED_LOCK_ACQUIRE = load("fenced_lock_acquire", _token_or_left, varies=True)
_FENCED_LOCK_RELEASE = Variants("fenced_lock_release", released, varies=True)


def fenced_lock_acquire(
    lock: str,
    token: str,
    lease: float,
    holder: str,
    depth: int,
    floor: int,
    unit: int,
    *,
    deadline: float = NEVER,
) -> Eval[Grant | float]:
    """Reach *depth*.

    Return a grant with its token, or the seconds that are left of the other's lease. The token is
    above *floor*. If *unit* is not 0, it is also above *unit* times the epoch of the
    node. If the node tells no epoch, it is above the node's clock.
    """
    args = (milliseconds(lease), holder, depth, floor, unit)
    return Eval(_FENCED_LOCK_ACQUIRE, (lock, token), args, deadline)


def fenced_lock_release(
    lock: str,
    token: str,
    holder: str,
    depth: int,
    floor: int,
    unit: int,
    publish: str,
    channel: str,
    *,
    leaving: str = "",
    news: str = "",
) -> Eval[int]:
    """Go down to *depth*; at 0 a holder that waits may get the lock, and a new token.

    Arguments and results are those of `lock_release` and `fenced_lock_acquire`. *news* has the
    channel of an election's observers.
    """
    told = (leaving, news) if news else (leaving,) if leaving else ()
    args: tuple[str | int, ...] = (holder, depth, channel, floor, unit, *told)
    keys, spare = ((lock, token), False) if depth else with_queue((lock, token), publish, channel)
    return Eval(_FENCED_LOCK_RELEASE[publish], keys, args, spare_keys=spare)
