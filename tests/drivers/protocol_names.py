"""The names that a protocol of drivers asks for."""

from __future__ import annotations

from typing import Any


def names_of(protocol: type) -> set[str]:
    """Return the names that *protocol* lists."""
    return {name for part in protocol.__mro__ for name in vars(part) if name[0] != "_"}


def lacking(driver: Any, protocol: type) -> set[str]:
    """Return the names of *protocol* that *driver* does not have."""
    return {name for name in names_of(protocol) if not hasattr(driver, name)}
