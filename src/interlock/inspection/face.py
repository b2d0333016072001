"""What the faces and commands call; it blocks, so beside an event loop it is called in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.inspection.reader import Reader
from interlock.inspection.why import explain

if TYPE_CHECKING:
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock.inspection.deadlocks import Deadlock
    from interlock.inspection.info import LockInfo
    from interlock.inspection.why import Account
    from interlock.options import Options


def read_deadlocks(servers: Endpoint | Cluster, options: Options) -> list[Deadlock]:
    """Return the deadlocks among all clients; errors as `Reader.describe`."""
    with Reader(servers, options) as reader:
        return reader.deadlocks()


def read_lock(servers: Endpoint | Cluster, options: Options, key: str) -> LockInfo | None:
    """Return what is known of the lock *key*; errors as `Reader.describe`."""
    with Reader(servers, options) as reader:
        return reader.describe(key)


def account_of(reader: Reader, name: str) -> tuple[LockInfo | None, Account]:
    """Return the lock *name*, and why it is as it is; errors as `Reader.describe`.

    Cost:
        A description, and a look at all cards.
    """
    info = reader.describe(name)
    return info, explain(
        name,
        info,
        ends=reader.ends(name),
        deadlocks=reader.deadlocks() if info is not None and info.deadlock else (),
        beside=reader.beside(name) if info is None else None,
        uptime=reader.uptime() if info is None else None,
    )
