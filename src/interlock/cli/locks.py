"""Which lock a run asks for, and how it is entered.

The options choose one object under the name: the plain lock (fenced, so that the job has a token), a side of the read/write
lock, the fair lock, a permit of a leased semaphore (which comes back by itself when we are killed), or, over several servers, a
majority of plain locks. The locks exclude each other whatever their kind, for each refuses a hash that it does not know; but only
those of one kind hear of each other's releases.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias, assert_never

from interlock import RedLock
from interlock.cli.status import UsageError
from interlock.cli.values import Limit, Mode

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import AbstractContextManager

    from interlock import Client, Hold, Permit
    from interlock.cli.options import RunOptions

Entrance: TypeAlias = "AbstractContextManager[Hold]"


def entrance(clients: Sequence[Client], options: RunOptions, timeout: float | None) -> Entrance:
    """Return what, when it is entered, waits up to *timeout* seconds (None: for ever) and gives the hold.

    A permit is acquired here already.

    Args:
        clients: one for each URL, in their order.
        options: what is asked for.
        timeout: seconds; 0 for one try.

    Raises:
        UsageError: the semaphore has another limit.
        InterlockError: as acquiring does.
    """
    name, client = options.name, clients[0]
    if len(clients) > 1:
        return RedLock(*(each.lock(name) for each in clients), timeout=timeout)
    match options.mode:
        case Limit(permits):
            return _permit(client, name, permits, timeout)
        case Mode.PLAIN:
            return client.fenced_lock(name, timeout=timeout)
        case Mode.SHARED:
            return client.read_write_lock(name, timeout=timeout).read
        case Mode.EXCLUSIVE:
            return client.read_write_lock(name, timeout=timeout).write
        case Mode.FAIR:
            return client.fair_lock(name, timeout=timeout)
        case _:
            assert_never(options.mode)


def _permit(client: Client, name: str, limit: int, timeout: float | None) -> Permit:
    """Return a permit of the semaphore *name*, which has *limit* of them or is made with so many."""
    semaphore = client.leased_semaphore(name)
    # One try first: it fails at once when there is no server, where the rest would sit the outage out.
    permit = semaphore.try_acquire()
    if not semaphore.try_set_permits(limit) and (found := semaphore.permits()) != limit:
        # What was acquired goes back when the client closes.
        raise UsageError(
            f"wanted --limit {limit}, found {found} for {name!r} on the server: all who share the name must give the same limit"
        )
    return semaphore.acquire(timeout=timeout) if permit is None else permit
