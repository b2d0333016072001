"""The scripts of the counting semaphore; every call that changes something is a `Request`."""

from __future__ import annotations

from interlock._core.model.effects import NEVER, Eval
from interlock._core.model.names import semaphore_total as total_of
from interlock._core.model.names import waiting_queue
from interlock._core.scripts.script import (
    Request,
    Variants,
    done,
    load,
    milliseconds,
    number,
    pair,
    released,
    with_queue,
)


def _permits(reply: object) -> int | None:
    """Read a number of permits; nil where there is no semaphore."""
    return None if reply is None else number(reply)


def _numbers(reply: object) -> tuple[int | None, int | None]:
    free, total = pair(reply)
    return _permits(free), _permits(total)


_SEMAPHORE_ACQUIRE = Variants("semaphore_acquire", released, varies=True)
_SEMAPHORE_LEAVE = Variants("semaphore_leave", released)
_SEMAPHORE_RELEASE = Variants("semaphore_release", released, varies=True)
_SEMAPHORE_DRAIN = load("semaphore_drain", number)
_SEMAPHORE_UNDO = Variants("semaphore_undo", done)
_SEMAPHORE_TRY_SET = Variants("semaphore_try_set", done)
_SEMAPHORE_ADD = Variants("semaphore_add", done)
_SEMAPHORE_SET = Variants("semaphore_set", done)
_SEMAPHORE_TOTAL = load("semaphore_total", _numbers)
_SEMAPHORE_DELETE = load("semaphore_delete", done)
_SEMAPHORE_EXPIRE = load("semaphore_expire", done)
_SEMAPHORE_QUERY = load("semaphore_query", _permits)


def semaphore_acquire(
    semaphore: str, request: Request, permits: int, publish: str, channel: str
) -> Eval[int]:
    """Take *permits*; 0 if too few are free, else 1, or 2 if others wait in the queue.

    Four times the epoch is added, if it is known.
    """
    own = (semaphore, request.key, request.old_latch, total_of(semaphore))
    keys, queue = with_queue(own, publish, channel)
    args = (permits, milliseconds(request.ttl))
    return Eval(_SEMAPHORE_ACQUIRE[publish], keys, args, spare_keys=1 + queue)


def semaphore_leave(semaphore: str, me: str, publish: str, channel: str) -> Eval[int]:
    """Take *me* out of the queue; 3 if another client was told that it is next."""
    keys = (semaphore, waiting_queue(channel))
    return Eval(_SEMAPHORE_LEAVE[publish], keys, (me, channel), spare_keys=1)


def semaphore_release(
    semaphore: str,
    request: Request,
    permits: int,
    create: int,
    epoch: int,
    publish: str,
    channel: str,
) -> Eval[int]:
    """Add *permits*, which were taken in *epoch*; 0 if that is not known.

    0 if it is over, or if there is no such semaphore and *create* is 0; 3 if others got them.
    """
    own = (semaphore, request.key, request.old_latch, total_of(semaphore))
    keys, queue = with_queue(own, publish, channel)
    args = (permits, create, milliseconds(request.ttl), channel, epoch)
    return Eval(_SEMAPHORE_RELEASE[publish], keys, args, spare_keys=1 + queue)


def semaphore_drain(semaphore: str, request: Request) -> Eval[int]:
    """Take all permits that are free, and tell how many."""
    keys = (semaphore, request.key, request.old_latch, total_of(semaphore))
    return Eval(_SEMAPHORE_DRAIN, keys, (milliseconds(request.ttl),), spare_keys=1)


def semaphore_undo(
    semaphore: str,
    request: Request,
    publish: str,
    channel: str,
    *,
    total: bool = False,
    added: bool = False,
) -> Eval[bool]:
    """Undo the call *request*; if it arrives later, it does nothing.

    Args:
        semaphore: its key.
        request: the call.
        publish: the command that tells waiters.
        channel: where they listen.
        total: whether it is a plain semaphore, whose number of all permits has a key of its own.
        added: whether the call may have changed that number.
    """
    keys = (semaphore, request.key, *((total_of(semaphore),) if total else ()))
    args = (milliseconds(request.ttl), channel, int(added))
    return Eval(_SEMAPHORE_UNDO[publish], keys, args, spare_keys=total)


def semaphore_try_set(
    semaphore: str, request: Request, permits: int, publish: str, channel: str
) -> Eval[bool]:
    """Create a semaphore with *permits*; False if it exists already."""
    keys = (semaphore, request.key, request.old_latch, total_of(semaphore))
    args = (permits, milliseconds(request.ttl), channel)
    return Eval(_SEMAPHORE_TRY_SET[publish], keys, args, spare_keys=1)


def semaphore_add(
    semaphore: str, request: Request, permits: int, create: int, publish: str, channel: str
) -> Eval[bool]:
    """Add *permits* for good; False if there is no such semaphore and *create* is 0."""
    keys = (semaphore, request.key, request.old_latch, total_of(semaphore))
    args = (permits, create, milliseconds(request.ttl), channel)
    return Eval(_SEMAPHORE_ADD[publish], keys, args, spare_keys=1)


def semaphore_set(
    semaphore: str, request: Request, permits: int, publish: str, channel: str
) -> Eval[bool]:
    """Set the number of permits, taken and free together; False if it is not known now."""
    keys = (semaphore, total_of(semaphore), request.key, request.old_latch)
    args = (permits, milliseconds(request.ttl), channel)
    return Eval(_SEMAPHORE_SET[publish], keys, args)


def semaphore_total(
    semaphore: str, *, deadline: float = NEVER
) -> Eval[tuple[int | None, int | None]]:
    """Tell how many permits are free (None: no semaphore), and how many there are, if known."""
    keys = (semaphore, total_of(semaphore))
    return Eval(_SEMAPHORE_TOTAL, keys, (), deadline, spare_keys=1)


def semaphore_query(semaphore: str, *, deadline: float = NEVER) -> Eval[int | None]:
    """Tell how many permits are free; None if there is no such semaphore."""
    return Eval(_SEMAPHORE_QUERY, (semaphore,), (), deadline)


def semaphore_expire(
    semaphore: str, rest: str, idle: float, *, deadline: float = NEVER
) -> Eval[bool]:
    """Set that *semaphore* and its other key *rest* end in *idle* seconds; False without them."""
    args = (milliseconds(idle),)
    return Eval(_SEMAPHORE_EXPIRE, (semaphore, rest), args, deadline, spare_keys=1)


def semaphore_delete(semaphore: str, request: Request, leases: str = "") -> Eval[bool]:
    """Remove the semaphore, with the *leases* of a leased one; False if there is none."""
    keys = (semaphore, request.key, request.old_latch, leases or total_of(semaphore))
    args = (milliseconds(request.ttl), 1 if leases else 0)
    return Eval(_SEMAPHORE_DELETE, keys, args, spare_keys=not leases)
