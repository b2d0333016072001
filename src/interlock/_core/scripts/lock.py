"""The scripts of the plain lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts.script import (
    Grant,
    ReplyShapeError,
    Variants,
    done,
    grant_or_left,
    kept,
    load,
    many,
    milliseconds,
    numbers,
    released,
    seconds,
    text,
    with_queue,
)
from interlock.errors import WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence


class LockStatus:
    """What the server knows of a lock.

    Attributes:
        remaining: seconds that are left of the lease, infinite if it never ends; None if nobody
            holds the lock.
        holders: the depth of each holder, by its holder id.
    """

    __slots__ = ("holders", "remaining")

    def __init__(self, remaining: float | None, holders: dict[str, int]) -> None:
        self.remaining = remaining
        self.holders = holders


def status(reply: object) -> LockStatus:
    """Read a PTTL and the holders with their depths."""
    match many(reply):
        case [pttl, *fields] if len(fields) % 2 == 0:
            remaining = seconds(pttl)
        case _:
            raise ReplyShapeError(f"expected a PTTL and pairs, got {reply!r}")
    pairs = zip(fields[::2], fields[1::2], strict=True)
    holders = {text(holder): _depth(depth) for holder, depth in pairs}
    return LockStatus(remaining if holders else None, holders)


def _depth(reply: object) -> int:
    """Read the depth of a holder.

    Raises:
        WrongTypeError: the field belongs to another kind of object.
    """
    depth = text(reply)
    if not (depth.isascii() and depth.isdigit()):
        raise WrongTypeError(
            f"the name is in use by something else: {depth!r} is not the depth of a holder"
        )
    return int(depth[:19])  # Redis counts with 64 bits


_LOCK_ACQUIRE = load("lock_acquire", grant_or_left)
_LOCK_RELEASE = Variants("lock_release", released)
_LOCK_PASS_LOCALLY = load("lock_pass_locally", released)
_LOCK_RENEW = load("lock_renew", kept)
_LOCK_GIVE = load("lock_give", released)
_LOCK_FORCE_RELEASE = Variants("lock_force_release", done)
_LOCK_QUERY = load("lock_query", status)
_LOCKS_ACQUIRE = load("locks_acquire", grant_or_left)
_LOCKS_RELEASE = Variants("locks_release", numbers)


def lock_acquire(
    lock: str, lease: float, holder: str, depth: int, *, deadline: float = NEVER
) -> Eval[Grant | float]:
    """Reach *depth*; a grant, or the seconds left of the other's lease."""
    return Eval(_LOCK_ACQUIRE, (lock,), (milliseconds(lease), holder, depth), deadline)


def lock_release(
    lock: str,
    holder: str,
    depth: int,
    publish: str,
    channel: str,
    *,
    leaving: tuple[str, ...] = (),
) -> Eval[int]:
    """Go down to *depth*.

    Return 0 if *holder* does not hold the lock, else 1. With a queue, return 2 if the holder's own
    client is next, and 3 if another one is, or the lock is left to others. `queue/grant_looks.py`
    has names for both. *leaving* has the id of the client if it leaves the queue, or "-" if it only
    looks.
    """
    args: tuple[str | int, ...] = (holder, depth, channel, *leaving)
    keys, spare = ((lock,), False) if depth else with_queue((lock,), publish, channel)
    return Eval(_LOCK_RELEASE[publish], keys, args, spare_keys=spare)


def lock_pass_locally(
    lock: str, holder: str, successor: str, lease: float, *, leaving: tuple[str, ...] = ()
) -> Eval[int]:
    """Give the lock of *holder* to *successor*; 0 when *holder* does not hold it.

    *leaving* has the queue's key and the client's id if the client leaves the queue.
    """
    keys = (lock, *leaving[:1])
    args: tuple[str | int, ...] = (holder, successor, milliseconds(lease), *leaving[1:])
    spare = 1 if leaving else 0
    return Eval(_LOCK_PASS_LOCALLY, keys, args, spare_keys=spare, spare_args=spare)


def lock_renew(
    locks: Sequence[str], lease: float, holders: Sequence[str], *, deadline: float = NEVER
) -> Eval[list[bool]]:
    """Keep *locks* for another *lease*; return for each whether its holder still holds it."""
    return Eval(_LOCK_RENEW, tuple(locks), (milliseconds(lease), *holders), deadline)


def lock_give(
    lock: str,
    holder: str,
    successor: str,
    lease: float,
    *,
    back: bool = False,
    deadline: float = NEVER,
) -> Eval[int]:
    """Give the lock of *holder* to *successor*; 0 when neither of the two holds it.

    *back* tells that this undoes the same call with both exchanged, which does nothing then.
    """
    args: tuple[str | int, ...] = (holder, successor, milliseconds(lease), int(back))
    return Eval(_LOCK_GIVE, (lock,), args, deadline)


def lock_force_release(lock: str, publish: str, channel: str, news: str = "") -> Eval[bool]:
    """Free the lock, no matter who holds it; True when it was locked.

    *news* has the channel of an election's observers.
    """
    return Eval(_LOCK_FORCE_RELEASE[publish], (lock,), (channel, news))


def locks_acquire(
    locks: Sequence[str], lease: float, holder: str, *, deadline: float = NEVER
) -> Eval[Grant | float]:
    """Take all of *locks*, or none; a grant, or the seconds left of another's lease."""
    return Eval(_LOCKS_ACQUIRE, tuple(locks), (milliseconds(lease), holder), deadline)


def locks_release(
    locks: Sequence[str],
    queues: Sequence[str],
    holder: str,
    publish: str,
    channels: Sequence[str],
) -> Eval[list[int]]:
    """Free *locks*, of which each has a queue and a channel.

    Return for each 1 if it was freed, 0 if *holder* does not hold it, and 2 if others wait for it.
    """
    return Eval(_LOCKS_RELEASE[publish], (*locks, *queues), (holder, *channels))


def lock_query(lock: str, *, deadline: float = NEVER) -> Eval[LockStatus]:
    """Tell who holds the lock, how deep, and for how long."""
    return Eval(_LOCK_QUERY, (lock,), (), deadline)
