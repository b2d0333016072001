# Generated from interlock/asyncio/composite_lock.py by tools/make_sync.py; change that file.
"""Several locks held as one."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.locks import multi_lock, red_lock
from interlock._core.locks.lock_base import LockBase
from interlock.errors import ConfigError
from interlock.sync.lock import Lock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.locks.composite import CompositeLock
    from interlock._drivers.protocol import BlockingDriver
    from interlock.options import Duration


class MultiLock(Lock):
    """All of several locks or none; also made by `Client.multi_lock`.

    Members may be of any kind and of several clients. They are acquired in one canonical order, so
    that multi locks that share members do not wait for each other in a ring. A *timeout* or *lease*
    that a member was made with does not count.

    Args:
        *locks: the members.
        timeout: seconds that a ``with`` statement waits; None for ever.
        lease: seconds after which a hold ends by itself; longer than it takes to acquire all
            members.

    Raises:
        ConfigError: no members, one of them twice, or members that cannot be held together.
    """

    __slots__ = ("_drivers",)

    def __init__(
        self, *locks: Lock, timeout: Duration | None = None, lease: Duration | None = None
    ) -> None:
        core = multi_lock.MultiLock(_members(locks))
        super().__init__(_driver(core, locks), core, timeout=timeout, lease=lease)
        # The clients of all members are in use as long as this is.
        self._drivers = [lock._driver for lock in locks]


class RedLock(Lock):
    """A majority of locks on independent servers; also made by `Client.red_lock`.

    It survives the loss of a minority of the servers. All servers are asked at once. Each has a
    fiftieth of the lease to answer, 0.05 s at least and 0.5 s at most.

    Args:
        *locks: one for each server; an odd number from 3, or a warning says why.
        timeout: seconds that a ``with`` statement waits; None for ever.
        lease: seconds after which a hold ends by itself.

    Raises:
        ConfigError: no members, one of them twice, or members that cannot be held together.
    """

    __slots__ = ("_drivers",)

    def __init__(
        self, *locks: Lock, timeout: Duration | None = None, lease: Duration | None = None
    ) -> None:
        core = red_lock.RedLock(_members(locks))
        super().__init__(_driver(core, locks), core, timeout=timeout, lease=lease)
        # The clients of all members are in use as long as this is.
        self._drivers = [lock._driver for lock in locks]


def _members(locks: Sequence[object]) -> list[LockBase]:
    members: list[LockBase] = []
    for lock in locks:
        if isinstance(lock, list | tuple | set):
            raise ConfigError("give the locks as arguments of their own: *locks, not one list")
        if isinstance(lock, str):
            raise ConfigError(f"a member must be a lock, not a name: give client.lock({lock!r})")
        if not isinstance(lock, Lock):
            raise ConfigError(
                f"a member must be a lock of this face, not {lock!r}: "
                "those of sync and of asyncio clients cannot be held as one"
            )
        if not isinstance(lock._core, LockBase):
            raise ConfigError(f"{lock!r} is several locks itself and cannot be a member")
        members.append(lock._core)
    return members


def _driver(core: CompositeLock, locks: Sequence[Lock]) -> BlockingDriver:
    """Return the driver of *core*, which is of *locks*; the same one in whatever order they are."""
    return next(lock._driver for lock in locks if lock._core is core.members[0])
