"""What the faces call; it blocks, so beside an event loop it is called in a thread."""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING

from interlock._core.insight.deadlock import PATIENCE
from interlock.errors import ServerUnavailableError
from interlock.inspection.deadlocks import Deadlock, check_seen, find_deadlocks
from interlock.inspection.reader import Reader
from interlock.inspection.why import explain

if TYPE_CHECKING:
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock.inspection.info import EndInfo, LockInfo
    from interlock.inspection.why import Account
    from interlock.options import Options

MOST_PAGES = 20
"""Pages of names among which one may look alike."""


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


def read_lock_and_more(
    servers: Endpoint | Cluster, options: Options, key: str
) -> tuple[LockInfo | None, list[EndInfo], dict[str, str] | None]:
    """Return what is known of the lock *key*, how its holds ended, and what else has its name.

    The latter only if nobody holds it, as of `Reader.beside`; errors as `read_lock`.
    """
    with Reader(servers, options) as reader:
        info = _described(reader, key)
        return info, reader.ends(key), reader.beside(key) if info is None else None


def _described(reader: Reader, key: str) -> LockInfo | None:
    info = reader.describe(key)
    if info is None and reader.forbidden:
        raise ServerUnavailableError(f"the user has no right to read {key!r}", code="NOPERM")
    return info


def account_of(reader: Reader, name: str) -> tuple[LockInfo | None, Account]:
    """Return the lock *name*, and why it is as it is.

    Raises:
        ConfigError: *name* cannot be the name of a lock.
        ServerUnavailableError: a server cannot be reached, or did not answer.

    Cost:
        A description, a look at all cards, and 10,000 keys for names that look alike. A suspected
        deadlock takes up to 12 s.
    """
    info = reader.describe(name)
    if info is None and reader.forbidden:
        return None, explain(name, None)
    beside = reader.beside(name) if info is None else None
    ends, names = reader.ends(name), _names(reader)
    long = info is not None and any((each.waited or 0) >= PATIENCE for each in info.waiters)
    deadlocks = find_deadlocks(reader) if long else []
    account = explain(
        *(name, info),
        ends=ends,
        deadlocks=deadlocks,
        names=names,
        beside=beside,
        uptime=reader.facts().uptime if info is None else None,
    )
    return info, account


def _names(reader: Reader) -> list[str]:
    """Return the names of some locks that are held or awaited."""
    return [info.name for page in islice(reader.pages(), MOST_PAGES) for info in page]
