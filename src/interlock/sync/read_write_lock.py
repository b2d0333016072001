# Generated from interlock/asyncio/read_write_lock.py by tools/make_sync.py; change that file.
"""The read/write lock: two locks of one name."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._hints import hints

if TYPE_CHECKING:
    from interlock.sync.lock import Lock


@hints("client.read_write_lock(name)")
class ReadWriteLock:
    """A lock that many read or one writes; made by `Client.read_write_lock`.

    It is shared with Java's RReadWriteLock. Each side is a lock of its own. An owner of `write` may
    take `read` besides, then release `write` and go on reading. An owner of `read` alone gets
    `UpgradeError` if it asks for `write`.

    Attributes:
        name: what it is called.
        read: the side that many hold at a time, while nobody writes.
        write: the side that one owner holds, while nobody else reads or writes.
    """

    __slots__ = ("__weakref__", "name", "read", "write")

    def __init__(self, read: Lock, write: Lock) -> None:
        self.name = write.name
        self.read = read
        self.write = write

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} read={self.read!r} write={self.write!r}>"
