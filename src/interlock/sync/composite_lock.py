# Generated from interlock/asyncio/composite_lock.py by tools/make_sync.py; change that file.
"""Several locks held as one."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.locks import multi_lock, red_lock
from interlock._drivers.members import joined
from interlock._misuse import warn
from interlock.sync.lock import Lock

if TYPE_CHECKING:
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
        core, driver, drivers = joined(multi_lock.MultiLock, locks, Lock)
        super().__init__(driver, core, timeout=timeout, lease=lease)
        # The clients of all members are in use as long as this is.
        self._drivers = drivers


class RedLock(Lock):
    """A majority of locks on independent servers; also made by `Client.red_lock`.

    It survives the loss of a minority of the servers. All servers are asked at once. Each has a
    fiftieth of the lease to answer, 0.05 s at least and 0.5 s at most.

    The arguments and errors are those of `MultiLock`, with one lock for each server: an odd number
    from 3, or a warning says why.
    """

    __slots__ = ("_drivers",)

    def __init__(
        self, *locks: Lock, timeout: Duration | None = None, lease: Duration | None = None
    ) -> None:
        core, driver, drivers = joined(red_lock.RedLock, locks, Lock)
        if weakness := core.weakness():
            warn(weakness, UserWarning)
        super().__init__(driver, core, timeout=timeout, lease=lease)
        # The clients of all members are in use as long as this is.
        self._drivers = drivers
