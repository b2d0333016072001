"""The scripts of the semaphore with leases."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER, Eval
from interlock._core.model.names import permit_leases, waiting_queue
from interlock._core.scripts.script import (
    Grant,
    Request,
    Variants,
    done,
    grant_or_left,
    kept,
    load,
    milliseconds,
    number,
    pair,
    released,
    with_queue,
)

if TYPE_CHECKING:
    from collections.abc import Sequence


def _counts(reply: object) -> tuple[int, int]:
    free, held = pair(reply)
    return number(free), number(held)


_LEASED_SEMAPHORE_ACQUIRE = Variants("leased_semaphore_acquire", grant_or_left, varies=True)
_LEASED_SEMAPHORE_RELEASE = Variants("leased_semaphore_release", released, varies=True)
_LEASED_SEMAPHORE_LEAVE = Variants("leased_semaphore_leave", released)
_LEASED_SEMAPHORE_RENEW = load("leased_semaphore_renew", kept)
_LEASED_SEMAPHORE_QUERY = Variants("leased_semaphore_query", _counts)
_LEASED_SEMAPHORE_ADD = Variants("leased_semaphore_add", done)
_LEASED_SEMAPHORE_SET = Variants("leased_semaphore_set", done)
_LEASED_SEMAPHORE_TRY_SET = Variants("leased_semaphore_try_set", done)


def leased_semaphore_acquire(
    semaphore: str, lease: float, ids: str, publish: str, channel: str, *, deadline: float = NEVER
) -> Eval[Grant | float]:
    """Take a permit for each of *ids*.

    Return a grant, or the seconds until the next lease ends.
    """
    keys, spare = with_queue((semaphore, permit_leases(semaphore)), publish, channel)
    args = (milliseconds(lease), ids, channel)
    return Eval(_LEASED_SEMAPHORE_ACQUIRE[publish], keys, args, deadline, spare_keys=spare)


def leased_semaphore_leave(
    semaphore: str, me: str, publish: str, channel: str, named: str = ""
) -> Eval[int]:
    """Take *me* out of the queue, and pass on what it was given; return whether somebody got it.

    The result is 3 then, as that of a lock's release. *named* is the permit in whose name the
    client may stand there; empty if there is none.
    """
    keys = (semaphore, permit_leases(semaphore), waiting_queue(channel))
    args = (me, channel, named) if named else (me, channel)
    return Eval(_LEASED_SEMAPHORE_LEAVE[publish], keys, args, spare_keys=1)


def leased_semaphore_release(semaphore: str, ids: str, publish: str, channel: str) -> Eval[int]:
    """Give back the permits of *ids*.

    Return 0 when one of them is not held, 3 when other clients in the queue got some, else 1.
    """
    keys, spare = with_queue((semaphore, permit_leases(semaphore)), publish, channel)
    return Eval(_LEASED_SEMAPHORE_RELEASE[publish], keys, (ids, channel), spare_keys=spare)


def leased_semaphore_renew(
    semaphores: Sequence[str],
    lease: float,
    ids: Sequence[str],
    *,
    idle: float = 0.0,
    deadline: float = NEVER,
) -> Eval[list[bool]]:
    """Keep permits for another *lease*, one set of ids for each of *semaphores*.

    With *idle*, keep the semaphores for so many seconds. Return for each set whether it is still
    held.
    """
    keys = tuple(map(permit_leases, semaphores))
    kept_for = 0
    if idle:
        keys, kept_for = (*keys, *semaphores), milliseconds(idle)
    return Eval(_LEASED_SEMAPHORE_RENEW, keys, (milliseconds(lease), kept_for, *ids), deadline)


def leased_semaphore_query(
    semaphore: str, publish: str, channel: str, *, deadline: float = NEVER
) -> Eval[tuple[int, int]]:
    """Tell how many permits are free, and how many are held."""
    keys = (semaphore, permit_leases(semaphore))
    return Eval(_LEASED_SEMAPHORE_QUERY[publish], keys, (channel,), deadline)


def leased_semaphore_try_set(
    semaphore: str, request: Request, permits: int, publish: str, channel: str
) -> Eval[bool]:
    """Create a semaphore of *permits*, those among them that are held; False if it exists."""
    keys = (semaphore, request.key, request.old_latch, permit_leases(semaphore))
    args = (permits, milliseconds(request.ttl), channel)
    return Eval(_LEASED_SEMAPHORE_TRY_SET[publish], keys, args)


def leased_semaphore_add(
    semaphore: str, request: Request, permits: int, publish: str, channel: str
) -> Eval[bool]:
    """Add *permits*; a negative number takes them away."""
    keys = (semaphore, request.key, request.old_latch)
    args = (permits, milliseconds(request.ttl), channel)
    return Eval(_LEASED_SEMAPHORE_ADD[publish], keys, args)


def leased_semaphore_set(
    semaphore: str, permits: int, publish: str, channel: str, *, deadline: float = NEVER
) -> Eval[bool]:
    """Set the number of permits, free and held together, to *permits*."""
    keys = (semaphore, permit_leases(semaphore))
    return Eval(_LEASED_SEMAPHORE_SET[publish], keys, (permits, channel), deadline)
