"""What the faces call; it blocks, so beside an event loop it is called in a thread."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import ServerUnavailableError
from interlock.inspection.deadlocks import Deadlock, check_seen, find_deadlocks
from interlock.inspection.reader import Reader

if TYPE_CHECKING:
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock.inspection.info import LockInfo, StackInfo
    from interlock.options import Options


def read_deadlocks(servers: Endpoint | Cluster, options: Options) -> list[Deadlock]:
    """Return the deadlocks among all clients; errors as `Reader.describe`.

    Raises:
        ServerUnavailableError: also if there is none that the user may see.
    """
    with Reader(servers, options) as reader:
        found = find_deadlocks(reader)
    if not found:
        check_seen(reader)
    return found


def read_lock(servers: Endpoint | Cluster, options: Options, key: str) -> LockInfo | None:
    """Return what is known of the lock *key*; errors as `Reader.describe`.

    Raises:
        ServerUnavailableError: also if nothing is known because the user may not read it.
    """
    with Reader(servers, options) as reader:
        return _described(reader, key)


def _described(reader: Reader, key: str) -> LockInfo | None:
    info = reader.describe(key)
    if info is None and reader.forbidden:
        raise ServerUnavailableError(f"the user has no right to read {key!r}", code="NOPERM")
    return info


def read_stacks(servers: Endpoint | Cluster, options: Options, key: str) -> list[StackInfo]:
    """Return what the holders of the lock *key* are doing.

    Raises:
        ConfigError: *key* cannot be the name of a lock.
        ServerUnavailableError: a server cannot be reached, or did not answer.
    """
    with Reader(servers, options) as reader:
        info = _described(reader, key)
        return [] if info is None else list(reader.stacks(info))
