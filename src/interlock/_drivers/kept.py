"""What tells that the user has dropped the object of a permit which nobody has released."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

from interlock._misuse import first_time, warn_at

if TYPE_CHECKING:
    from interlock._core.model.hold import Hold


class Kept:
    """Lives as long as the user keeps the object of *hold*, which belongs to its thread or task, too.

    Args:
        driver: the client's.
        write: how to write it.

    Attributes:
        hold: the hold; None while it is acquired.
    """

    __slots__ = ("__weakref__", "_driver", "_write", "hold")

    def __init__(self, driver: Any, write: str) -> None:
        self._driver, self._write = driver, write
        self.hold: Hold | None = None

    def __del__(self) -> None:
        hold = getattr(self, "hold", None)  # a signal may strike in `__init__`
        if hold is None or not hold.renewed or hold.over is not None or not hold.entries:
            return
        owner = hold.owner()
        if sys.is_finalizing() or owner is None or owner.ended():
            return  # it is released now, with a warning of its own
        place = hold.acquired_at
        if first_time(self._driver, f"unclaimed at {place}"):
            kind = hold.lock.kind
            warn_at(
                place,
                f"the hold of {kind} {hold.name!r} was not kept, so {owner.label} keeps "
                f"the {kind} until that ends; write `{self._write}`",
            )
