"""The locks that several tests of operators play, by what they are called there."""

from __future__ import annotations

from typing import Any

SIDES = ("read", "write")
"""What the two sides of a read/write lock are called; all others like the client's method."""


def make(client: Any, kind: str, name: str, **options: Any) -> Any:
    if kind in SIDES:
        return getattr(client.read_write_lock(name, **options), kind)
    if kind == "group_lock":
        return client.group_lock(name, ["one", "two"], **options)
    return getattr(client, kind)(name, **options)
