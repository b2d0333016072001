"""In which order the list of locks is shown: by trouble, or by a column."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.console.changes import who

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlock.inspection import LockInfo

COLUMNS: Mapping[str, Callable[[LockInfo], float | str | None]] = {
    "name": lambda info: info.name,
    "kind": lambda info: info.kind,
    "held": lambda info: info.held_for,
    "ends": lambda info: info.remaining,
    "holder": lambda info: who(info.holders[0]) if info.holders else None,
    "waiting": lambda info: info.waiting_at_least,
}
"""The word of a column -> what it is sorted by."""


def in_order(locks: Sequence[LockInfo], order: str) -> tuple[LockInfo, ...]:
    """Return *locks* by a column, whose word has a ``-`` before it to begin with the most.

    Locks without a value come last, whichever end is first.
    """
    value_of = COLUMNS[order.removeprefix("-")]
    known: list[tuple[float | str, LockInfo]] = []
    unknown: list[LockInfo] = []
    for info in locks:
        value = value_of(info)
        if value is None:
            unknown.append(info)
        else:
            known.append((value, info))
    # Equal ones stay by trouble.
    known.sort(key=lambda each: each[0], reverse=order.startswith("-"))
    return (*[info for _, info in known], *unknown)
