"""The locks that several tests of operators play, by what they are called there."""

from __future__ import annotations

import weakref
from typing import Any

SIDES = ("read", "write")
"""What the two sides of a read/write lock are called; all others like the client's method."""


def make(client: Any, kind: str, name: str, **options: Any) -> Any:
    """Return the lock *name* of *kind*."""
    if kind in SIDES:
        return getattr(client.read_write_lock(name, **options), kind)
    if kind == "group_lock":
        return client.group_lock(name, ["one", "two"], **options)
    return getattr(client, kind)(name, **options)


def rival(kind: str) -> str:
    """Return the kind of a lock that has to wait for one of *kind*."""
    return "write" if kind == "read" else kind


def joint(kind: Any, *locks: Any) -> Any:
    """Return *locks*, of a face, held as one: by the core's class *kind*."""
    core = kind([lock._core for lock in locks])
    driver = next(lock._driver for lock in locks if lock._core is core.members[0])
    made = type(locks[0])(driver, core)
    KEPT[made] = locks
    return made


KEPT: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()
"""The members of each joint lock: their clients are in use as long as that is."""
