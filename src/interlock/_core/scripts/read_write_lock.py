"""The scripts of the read/write lock.

A *holder* of the read lock is ``<client id>:<number>``. A holder of the write lock has ``:write``
appended. Both are fields of one hash.
"""

from __future__ import annotations

from functools import partial
from typing import Final

from interlock._core.model.names import WRITES
from interlock._core.scripts import replies
from interlock._core.scripts.locks import LockStatus, status
from interlock._core.scripts.source import Variants, load

READERS: Final = 0
WRITER: Final = 1
BOTH: Final = 2
"""The side that a query is about."""

READ_ACQUIRE: Final = load("read_acquire", replies.grant_or_left)
READ_ASK: Final = Variants("read_ask", replies.held_or_refused)
READ_RELEASE: Final = Variants("read_release", replies.freed)
READ_RENEW: Final = load("read_renew", replies.kept)
WRITE_ACQUIRE: Final = load("write_acquire", replies.grant_or_left)
WRITE_ASK: Final = Variants("write_ask", replies.held_or_refused)
WRITE_RELEASE: Final = Variants("write_release", replies.freed)


def _status(side: int, reply: object) -> LockStatus:
    """Read who holds *side*."""
    told = replies.many(reply)
    kept = told[:1]
    for holder, depth in zip(told[1::2], told[2::2], strict=False):
        writes = isinstance(holder, bytes) and holder.endswith(WRITES.encode())
        if holder != b"mode" and side in (BOTH, WRITER if writes else READERS):
            kept += (holder, depth)
    return status(kept)


QUERIES: Final = [load("lock_query", partial(_status, side)) for side in (READERS, WRITER, BOTH)]
"""Tell who holds a side, how deep, and for how long a single try is refused, by the side.

A reader that died counts until the lock ends, or a writer that waits has found that out.
"""
