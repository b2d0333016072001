"""The locks that are held as one, as users give them."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.locks.composite import Composite
from interlock._core.objects.election import Election
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence


def joined(
    kind: Callable[[Sequence[Any]], Any], locks: Sequence[Any], face: type[Any]
) -> tuple[Any, Any, list[Any]]:
    """Return the core of *locks*, its driver and those of all.

    Args:
        kind: makes the core.
        locks: the members.
        face: the class of all locks of this face.

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
