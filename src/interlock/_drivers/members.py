"""The locks of which users make something else: several that are one, and that of a condition."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.locks.composite import Composite
from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.group_lock import GroupLock
from interlock._core.locks.read_write_lock import ReadLock
from interlock._core.objects.condition import Condition
from interlock._core.objects.election import Election
from interlock.errors import ConfigError
from interlock.options import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.upkeep.session import Session


def joined(
    kind: Callable[[Sequence[Any]], Any], locks: Sequence[Any], face: type[Any]
) -> tuple[Any, Any, list[Any]]:
    """Return the core of *locks*, its driver and those of all; *face* is the class of all locks.

    Raises:
        ConfigError: they cannot be held as one.
    """
    for lock in locks:
        _check(lock, face)
    core = kind([each._core for each in locks])
    # The same one in whatever order they are.
    driver = next(each._driver for each in locks if each._core is core.members[0])
    return core, driver, [each._driver for each in locks]


def _check(lock: Any, face: type[Any]) -> None:
    """Raise ConfigError unless *lock* can be a member."""
    if isinstance(lock, list | tuple | set):
        raise ConfigError("give the locks as arguments of their own: *locks, not one list")
    if isinstance(lock, str):
        raise ConfigError(f"a member must be a lock, not a name: give client.lock({lock!r})")
    if not isinstance(lock, face):
        raise ConfigError(
            f"a member must be a lock of this face, not {lock!r}: "
            "those of sync and of asyncio clients cannot be held as one"
        )
    if isinstance(lock._core, Composite):
        raise ConfigError(f"{lock!r} is several locks itself and cannot be a member")
    if isinstance(lock._core, Election):
        raise ConfigError(f"{lock!r} is no lock that others can be made of")


def condition_of(lock: Any, session: Session, name: str | None, face: type[Any]) -> Condition:
    """Return the core of a condition of *lock*, for the client of *session*.

    Args:
        lock: what its users hold.
        session: of the client that makes it.
        name: what tells several conditions of one lock apart; None for the lock's own.
        face: the class of all locks.

    Raises:
        ConfigError: *lock* can have no condition here.
        TypeError: it is no lock, or one of another face.
    """
    if not isinstance(lock, face):
        raise TypeError(f"a condition needs a lock of its face, not {type(lock).__name__}")
    core = lock._core
    chosen = "" if name is None else check_name(name)
    if isinstance(core, (FairLock, GroupLock, ReadLock, Composite, Election)):
        raise ConfigError(
            f"a condition needs a plain, fenced, spin or write lock, got {core.kind} "
            f"{lock.name!r}: make it of a client.lock of another name"
        )
    condition = Condition(core, chosen)
    if core.session is not session:
        raise ConfigError(
            f"condition {condition.name!r} needs a lock of its own client: "
            f"{core.kind} {lock.name!r} is another client's"
        )
    return condition
