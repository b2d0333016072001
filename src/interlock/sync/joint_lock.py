# Generated from interlock/asyncio/joint_lock.py by tools/make_sync.py; change that file.
"""Several locks held as one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core import multi_lock, red_lock
from interlock._core.lock_like import LockLike
from interlock.errors import ConfigError
from interlock.sync.lock import Lock

if TYPE_CHECKING:
    from interlock._drivers.threads import ThreadDriver


class MultiLock(Lock):
    """All of several locks or none; also made by `Client.multi_lock`.

    Members may be of any kind and of several clients. They are acquired in one canonical order, so that multi locks that share members
    do not wait for each other in a ring.

    Args:
        *locks: the members.
        timeout: seconds that a ``with`` statement waits; None for ever.
        lease: seconds after which a hold ends by itself; longer than it takes to acquire all members.

    Raises:
        ConfigError: no members, one of them twice, or members that cannot be held together.
    """

    def __init__(
        self, *locks: Lock, timeout: float | None = None, lease: float | None = None
    ) -> None:
        recipe = multi_lock.MultiLock(_recipes(locks))
        super().__init__(_home(locks), recipe, timeout=timeout, lease=lease)


class RedLock(Lock):
    """A majority of locks on independent servers, asked all at once; also made by `Client.red_lock`.

    It survives the loss of a minority of the servers. See the guide on failover for what it promises, and what it does not.

    Args:
        *locks: one for each server; an odd number from 3, or a warning says why.
        timeout: seconds that a ``with`` statement waits; None for ever.
        lease: seconds after which a hold ends by itself.

    Raises:
        ConfigError: no members, one of them twice, or members that cannot be held together.
    """

    def __init__(
        self, *locks: Lock, timeout: float | None = None, lease: float | None = None
    ) -> None:
        recipe = red_lock.RedLock(_recipes(locks))
        super().__init__(_home(locks), recipe, timeout=timeout, lease=lease)


def _recipes(locks: tuple[Lock, ...]) -> list[LockLike]:
    recipes = [lock.recipe for lock in locks]
    members = [recipe for recipe in recipes if isinstance(recipe, LockLike)]
    if len(members) < len(recipes):
        raise ConfigError("locks that are several themselves cannot be members")
    return members


def _home(locks: tuple[Lock, ...]) -> ThreadDriver:
    return locks[0].driver
