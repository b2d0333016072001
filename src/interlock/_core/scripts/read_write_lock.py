"""The scripts of the read/write lock.

A *holder* of the read lock is ``<client id>:<number>``. A holder of the write lock has ``:write``
appended. Both are fields of one hash.
"""

from __future__ import annotations

from functools import partial
from typing import Any, Final

from interlock._core.model.effects import NEVER, Eval
from interlock._core.model.names import WRITES
from interlock._core.scripts.loader import Variants, load
from interlock._core.scripts.locks import LockStatus, status
from interlock._core.scripts.replies import Refusal, freed, held_or_refused
from interlock._core.scripts.script import Grant, grant_or_left, kept, many

READERS: Final = 0
WRITER: Final = 1
BOTH: Final = 2
"""The side that a query is about."""
_REFUSED = 6
"""The parts of a refusal before the readers."""


def _in_or_refused(reply: Any) -> Grant | Refusal:
    """Read the answer to a reader or writer that asks."""
    if reply.__class__ is not list or len(reply) <= _REFUSED:
        return held_or_refused(reply)
    refusal: Any = held_or_refused(reply[:_REFUSED])
    readers: Refusal = refusal._replace(readers=tuple(reply[_REFUSED:]))
    return readers


READ_ACQUIRE: Final = load("read_acquire", grant_or_left)
READ_ASK: Final = Variants("read_ask", _in_or_refused, patient=True)
READ_RELEASE: Final = Variants("read_release", freed)
READ_RENEW: Final = load("read_renew", kept)
WRITE_ACQUIRE: Final = load("write_acquire", grant_or_left)
WRITE_ASK: Final = Variants("write_ask", _in_or_refused, patient=True)
WRITE_RELEASE: Final = Variants("write_release", freed)


def _status(side: int, reply: object) -> LockStatus:
    """Read who holds *side*."""
    told = many(reply)
    kept = told[:1]
    for holder, depth in zip(told[1::2], told[2::2], strict=False):
        writes = isinstance(holder, bytes) and holder.endswith(WRITES.encode())
        if holder != b"mode" and side in (BOTH, WRITER if writes else READERS):
            kept += (holder, depth)
    return status(kept)


_QUERIES: Final = [load("lock_query", partial(_status, side)) for side in (READERS, WRITER, BOTH)]


def read_write_lock_query(lock: str, side: int, *, deadline: float = NEVER) -> Eval[LockStatus]:
    """Tell who holds *side* of the lock, how deep, and for how long a single try is refused.

    A reader that died counts until the lock ends, or a writer that waits has found that out.
    """
    return Eval(_QUERIES[side], (lock,), (), deadline)
