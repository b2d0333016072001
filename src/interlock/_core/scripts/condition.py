"""The scripts of the condition; the barrier has `waiting_renew`, too."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts.script import (
    ReplyShapeError,
    Request,
    Variants,
    done,
    kept,
    load,
    many,
    milliseconds,
    number,
    seconds,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


class Condition(NamedTuple):
    """Where a condition is: its keys and its channels.

    Attributes:
        waiting: the sorted set of the waiters that were not notified.
        leases: the sorted set of all waiters, with the ends of their leases.
        publish: the command for messages, empty for none.
        channel: the prefix of the channels of all waiters.
    """

    waiting: str
    leases: str
    publish: str
    channel: str


def _stand(reply: object) -> float | None:
    match many(reply):
        case [0, left]:
            return seconds(left)
        case [1]:
            return None
        case _:
            raise ReplyShapeError(f"expected {{0, milliseconds}} or {{1}}, got {reply!r}")


_CONDITION_ENLIST = load("condition_enlist", done)
_CONDITION_LOOK = load("condition_look", _stand)
_CONDITION_NOTIFY = Variants("condition_notify", done)
_CONDITION_END = load("condition_end", done)
_CONDITION_LEAVE = Variants("condition_leave", number)
_WAITING_RENEW = load("waiting_renew", kept)


def condition_enlist(
    condition: Condition, request: Request, waiter: str, lease: float, kept_for: float
) -> Eval[bool]:
    """Add *waiter*, behind all other waiters."""
    times = (milliseconds(lease), milliseconds(request.ttl), milliseconds(kept_for))
    keys = (condition.waiting, condition.leases, request.key, request.old_latch)
    return Eval(_CONDITION_ENLIST, keys, (waiter, *times))


def condition_look(
    condition: Condition, waiter: str, kept_for: float, *, deadline: float = NEVER
) -> Eval[float | None]:
    """Return the seconds until the first lease ends; None if *waiter* no longer waits."""
    keys = (condition.waiting, condition.leases)
    return Eval(_CONDITION_LOOK, keys, (waiter, milliseconds(kept_for)), deadline)


def condition_notify(condition: Condition, request: Request, count: int) -> Eval[bool]:
    """Notify the first *count* waiters, and one more for each that died after it was notified."""
    keys = (condition.waiting, condition.leases, request.key, request.old_latch)
    args = (count, milliseconds(request.ttl), condition.channel)
    return Eval(_CONDITION_NOTIFY[condition.publish], keys, args)


def condition_end(condition: Condition, request: Request, waiter: str) -> Eval[bool]:
    """End the wait of *waiter*; return whether it was notified."""
    keys = (condition.waiting, condition.leases, request.key)
    return Eval(_CONDITION_END, keys, (waiter, milliseconds(request.ttl)))


def condition_leave(condition: Condition, request: str, waiter: str, ttl: float) -> Eval[int]:
    """Undo the wait of *waiter*; its notification goes to the next one."""
    keys = (condition.waiting, condition.leases, request)
    args = (waiter, milliseconds(ttl), condition.channel)
    return Eval(_CONDITION_LEAVE[condition.publish], keys, args)


def waiting_renew(
    leases: Sequence[str], lease: float, ids: Sequence[str], *, deadline: float = NEVER
) -> Eval[list[bool]]:
    """Renew the waiters *ids* for another *lease*, one for each sorted set of *leases*."""
    return Eval(_WAITING_RENEW, tuple(leases), (milliseconds(lease), *ids), deadline)
