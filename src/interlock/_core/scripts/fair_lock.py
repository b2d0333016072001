"""The scripts of the fair lock."""

from __future__ import annotations

from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts.script import (
    GRANTED,
    Grant,
    Variants,
    done,
    milliseconds,
    pair,
    seconds,
)


class Queue:
    """The queue of a fair lock.

    Args:
        keys: the lock, the list of its waiters, and the deadlines of their places.
        wait: seconds for which a waiter may be silent.
        publish: the command that sends a message.
        channel: the prefix of the channels of all waiters.
    """

    __slots__ = ("args", "keys", "publish")

    def __init__(self, keys: tuple[str, str, str], wait: float, publish: str, channel: str) -> None:
        self.keys = keys
        self.publish = publish
        self.args = (milliseconds(wait), channel)


class Queued(float):
    """A refusal with a place in the queue: the seconds within which the holder must ask again."""

    __slots__ = ()


def _grant_or_turn(reply: object) -> Grant | float:
    if reply is None:
        return GRANTED
    remaining, queued = pair(reply)
    return Queued(seconds(remaining)) if done(queued) else seconds(remaining)


_FAIR_LOCK_ACQUIRE = Variants("fair_lock_acquire", _grant_or_turn)
_FAIR_LOCK_RELEASE = Variants("fair_lock_release", done)
_FAIR_LOCK_FORCE_RELEASE = Variants("fair_lock_force_release", done)


def fair_lock_acquire(
    queue: Queue,
    lease: float,
    holder: str,
    depth: int,
    *,
    enqueue: bool,
    deadline: float = NEVER,
) -> Eval[Grant | float]:
    """Reach *depth* if it is the turn of *holder*.

    Return a grant, `Queued`, or the seconds that are left of the other's lease.
    """
    args = (milliseconds(lease), holder, depth, int(enqueue), *queue.args)
    return Eval(_FAIR_LOCK_ACQUIRE[queue.publish], queue.keys, args, deadline)


def fair_lock_release(queue: Queue, holder: str, depth: int) -> Eval[bool]:
    """Go down to *depth*; at 0, also leave the queue.

    Return False if *holder* neither holds the lock nor waits for it.
    """
    return Eval(_FAIR_LOCK_RELEASE[queue.publish], queue.keys, (holder, depth, *queue.args))


def fair_lock_force_release(queue: Queue) -> Eval[bool]:
    """Free the lock, no matter who holds it; True if it was locked."""
    return Eval(_FAIR_LOCK_FORCE_RELEASE[queue.publish], queue.keys, queue.args)
