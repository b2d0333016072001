"""The scripts of the read/write lock.

A *holder* of the read lock is ``<client id>:<number>``. A holder of the write lock has ``:write``
appended. Both are fields of one hash.

Each entry of a reader is a key. Only the server knows all readers. So a script that must look at
entries of others is refused at first, by an error that names the readers: see `declaring`.
"""

from __future__ import annotations

from itertools import chain
from typing import TYPE_CHECKING, Final

from interlock._core.model import names
from interlock._core.model.effects import NEVER, Eval
from interlock._core.scripts.lock import status
from interlock._core.scripts.script import (
    Grant,
    Variants,
    done,
    grant_or_left,
    kept,
    load,
    milliseconds,
    released,
    with_queue,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.scripts.lock import LockStatus

READERS: Final = 0
WRITER: Final = 1
BOTH: Final = 2
"""The side that a script is about. READERS and WRITER are also the messages of a release."""

_READ_LOCK_ACQUIRE = Variants("read_lock_acquire", grant_or_left)
_READ_LOCK_RELEASE = Variants("read_lock_release", released)
_READ_LOCK_RENEW = load("read_lock_renew", kept)
_WRITE_LOCK_ACQUIRE = load("write_lock_acquire", grant_or_left)
_WRITE_LOCK_RELEASE = Variants("write_lock_release", released)
_READ_WRITE_LOCK_QUERY = load("read_write_lock_query", status)
_READ_WRITE_LOCK_FORCE_RELEASE = Variants("read_write_lock_force_release", done)


def read_lock_acquire(
    lock: str,
    prefix: str,
    lease: float,
    holder: str,
    depth: int,
    writer: str,
    *,
    publish: str = "",
    deadline: float = NEVER,
) -> Eval[Grant | float]:
    """Reach *depth* as a reader; a grant, or the seconds left of the writer's lease.

    Args:
        lock: the key.
        prefix: the prefix of the keys of its readers' entries.
        lease: seconds.
        holder: the reader's holder id.
        depth: the depth to reach.
        writer: the holder id of the same owner's write hold; empty if it has none.
        publish: the command that tells other readers, if `tell_readers` is called.
        deadline: the deadline of the reply.
    """
    newest = (names.read_entry(prefix, holder, depth),) if depth > 1 else ()
    keys = (lock, names.read_entry(prefix, holder, 1), *newest)
    args = (milliseconds(lease), holder, depth, writer, "")
    return Eval(_READ_LOCK_ACQUIRE[publish], keys, args, deadline, asks=4)


def tell_readers(call: Eval[Grant | float], channel: str) -> None:
    """Make *call*, of a reader in the queue, tell all other readers that they may read."""
    call.args = (*call.args, channel)
    call.spare_args += 1


def read_lock_release(
    lock: str,
    prefix: str,
    holder: str,
    depth: int,
    former: int,
    publish: str,
    channel: str,
) -> Eval[int]:
    """Go down from *former* to *depth*; 0 if *holder* does not read.

    At least the entry above *depth* is removed, even if *former* is not larger.
    """
    above = range(depth, max(former, depth + 1))
    entries = [names.read_entry(prefix, holder, n + 1) for n in above]
    keys, spare = with_queue((lock, *entries), publish if depth == 0 else "", channel)
    args = (holder, depth, "", channel, len(entries))
    return Eval(_READ_LOCK_RELEASE[publish], keys, args, spare_keys=spare, asks=2)


def read_lock_renew(
    locks: Sequence[str], lease: float, holders: Sequence[str], *, deadline: float = NEVER
) -> Eval[list[bool]]:
    """Keep *locks* for another *lease*; return for each whether its holder still reads."""
    both = zip(locks, holders, strict=True)
    keys = [(lock, names.read_entry(names.read_entries(lock), holder, 1)) for lock, holder in both]
    flat = tuple(chain.from_iterable(keys))
    return Eval(_READ_LOCK_RENEW, flat, (milliseconds(lease), *holders), deadline)


def write_lock_acquire(
    lock: str, lease: float, holder: str, depth: int, *, deadline: float = NEVER
) -> Eval[Grant | float]:
    """Reach *depth* as the writer; a grant, or the seconds left of the others' lease."""
    args = (milliseconds(lease), holder, depth, "")
    return Eval(_WRITE_LOCK_ACQUIRE, (lock,), args, deadline, asks=3)


def write_lock_release(
    lock: str,
    holder: str,
    depth: int,
    publish: str,
    channel: str,
    *,
    leaving: tuple[str, ...] = (),
    reads: tuple[str, int] | None = None,
) -> Eval[int]:
    """Go down to *depth*; 0 when *holder* does not write.

    *leaving* has the id of the client if it leaves the queue. *reads* is the holder id and the
    depth of the same owner's read hold.
    """
    args: tuple[str | int, ...] = (holder, depth, "", channel, *leaving)
    keys, spare = with_queue((lock,), publish if depth == 0 else "", channel)
    call = Eval(_WRITE_LOCK_RELEASE[publish], keys, args, spare_keys=spare, asks=2)
    if reads is not None:
        call.readers = f"{reads[0]} {reads[1]}"
    return call


def read_write_lock_query(lock: str, side: int, *, deadline: float = NEVER) -> Eval[LockStatus]:
    """Tell who holds *side* of the lock, how deep, and for how long."""
    return Eval(_READ_WRITE_LOCK_QUERY, (lock,), (side, ""), deadline, asks=1)


def read_write_lock_force_release(lock: str, side: int, publish: str, channel: str) -> Eval[bool]:
    """Free the lock if it is locked for *side*, no matter who holds it; True if it was."""
    return Eval(_READ_WRITE_LOCK_FORCE_RELEASE[publish], (lock,), (side, channel))
