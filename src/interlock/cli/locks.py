"""Which lock a run asks for, and how it is entered.

The options choose one object under the name:

* the plain lock, fenced, so that the job has a token;
* a side of the read/write lock;
* the fair lock;
* a permit of a leased semaphore, which comes back by itself when we are killed;
* a majority of plain locks, over several servers.

The locks exclude each other whatever their kind, for each refuses a hash that it does not know. But
only those of one kind hear of each other's releases.
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
    """Return a context manager that waits for the lock and gives the hold.

    A permit is acquired here already.

    Args:
        clients: one for each URL, in their order.
        options: what is asked for.
        timeout: seconds to wait; None for ever, 0 for one try.

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
    """Return a permit of the semaphore *name*, which has *limit* permits or is made with them."""
    semaphore = client.leased_semaphore(name)
    # One try first: without a server it fails at once, where the rest would wait out the outage.
    permit = semaphore.try_acquire()
    if not semaphore.try_set_permits(limit) and (found := semaphore.permits()) != limit:
        # A permit that was acquired goes back when the client closes.
        raise UsageError(
            f"wanted --limit {limit}, found {found} for {name!r} on the server: "
            "all who share the name must give the same limit"
        )
    return semaphore.acquire(timeout=timeout) if permit is None else permit
