"""The scripts of the read/write lock.

A *holder* of the read lock is ``<client id>:<number>``, one of the write lock has ``:write``
behind it; both are fields of one hash.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from interlock._core import names
from interlock._core.effects import NEVER, Eval
from interlock._core.scripts.lock import status
from interlock._core.scripts.script import (
    Grant,
    done,
    grant_or_left,
    kept,
    load,
    milliseconds,
    released,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.scripts.lock import LockStatus

READERS: Final = 0
WRITER: Final = 1
BOTH: Final = 2
"""Whom a script is about; the first two are also what is announced when that side is released."""

_READ_LOCK_ACQUIRE = load("read_lock_acquire", grant_or_left)
_READ_LOCK_RELEASE = load("read_lock_release", done)
_READ_LOCK_RENEW = load("read_lock_renew", kept)
_WRITE_LOCK_ACQUIRE = load("write_lock_acquire", grant_or_left)
_WRITE_LOCK_RELEASE = load("write_lock_release", released)
_READ_WRITE_LOCK_QUERY = load("read_write_lock_query", status)
_READ_WRITE_LOCK_FORCE_RELEASE = load("read_write_lock_force_release", done)


def read_lock_acquire(
    lock: str,
    prefix: str,
    lease: float,
    holder: str,
    depth: int,
    writer: str,
    *,
    deadline: float = NEVER,
) -> Eval[Grant | float]:
    """Reach *depth* as a reader; a grant, or the seconds left of the writer's lease.

    Args:
        lock: the key.
        prefix: what the keys of its readers' entries begin with.
        lease: seconds.
        holder: who reads.
        depth: how deep.
        writer: what the same owner holds the write lock as; empty when it does not.
        deadline: when the reply must have come.
    """
    keys = (lock, *[names.read_entry(prefix, holder, n + 1) for n in range(depth)])
    args = (milliseconds(lease), holder, depth, writer, prefix)
    return Eval(_READ_LOCK_ACQUIRE, keys, args, deadline)


def tell_readers(call: Eval[Grant | float], publish: str, channel: str) -> None:
    """Add to *call*, of a reader in the queue, how it tells all others that they may read."""
    about = (publish, channel)
    call.args = (*call.args, *about)
    call.queued += len(about)


def read_lock_release(
    lock: str,
    prefix: str,
    holder: str,
    depth: int,
    former: int,
    publish: str,
    channel: str,
    *,
    deadline: float = NEVER,
) -> Eval[bool]:
    """Go down from *former* to *depth*, or from one above it; False when *holder* does not read."""
    above = range(depth, max(former, depth + 1))
    keys = (lock, *[names.read_entry(prefix, holder, n + 1) for n in above])
    return Eval(_READ_LOCK_RELEASE, keys, (holder, depth, prefix, publish, channel), deadline)


def read_lock_renew(
    locks: Sequence[str], lease: float, holders: Sequence[str], *, deadline: float = NEVER
) -> Eval[list[bool]]:
    """Keep *locks* for another *lease*; tells of each whether its holder still reads."""
    return Eval(_READ_LOCK_RENEW, tuple(locks), (milliseconds(lease), *holders), deadline)


def write_lock_acquire(
    lock: str, prefix: str, lease: float, holder: str, depth: int, *, deadline: float = NEVER
) -> Eval[Grant | float]:
    """Reach *depth* as the writer; a grant, or the seconds left of the others' lease."""
    args = (milliseconds(lease), holder, depth, prefix)
    return Eval(_WRITE_LOCK_ACQUIRE, (lock,), args, deadline)


def write_lock_release(
    lock: str,
    prefix: str,
    holder: str,
    depth: int,
    publish: str,
    channel: str,
    *,
    deadline: float = NEVER,
    leaving: tuple[str, ...] = (),
) -> Eval[int]:
    """Go down to *depth*; 0 when *holder* does not write.

    *leaving*: the id of the client, if it shall not stand in the queue any more.
    """
    args: tuple[str | int, ...] = (holder, depth, prefix, publish, channel, *leaving)
    return Eval(_WRITE_LOCK_RELEASE, (lock,), args, deadline)


def read_write_lock_query(
    lock: str, prefix: str, side: int, *, deadline: float = NEVER
) -> Eval[LockStatus]:
    """Tell who of *side* holds the lock, how deep, and for how long."""
    return Eval(_READ_WRITE_LOCK_QUERY, (lock,), (side, prefix), deadline)


def read_write_lock_force_release(
    lock: str, prefix: str, side: int, publish: str, channel: str, *, deadline: float = NEVER
) -> Eval[bool]:
    """Free the lock from whoever of *side* holds it; True when it was locked that way."""
    args = (side, prefix, publish, channel)
    return Eval(_READ_WRITE_LOCK_FORCE_RELEASE, (lock,), args, deadline)
