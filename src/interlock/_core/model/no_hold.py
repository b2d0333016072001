"""The stand-in for a hold if a lock was not acquired."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.model.hold import ENDED, Hold
from interlock.errors import NotHeldError

if TYPE_CHECKING:
    from interlock._core.model.hold import Owner


class NoHold(Hold):
    """A hold that has ended from the start, and is never lost.

    Args:
        lock: what *owner* wanted.
        owner: who wanted it.
        holder: who holds the lock instead; None if that is unknown.
    """

    __slots__ = ("holder",)
    holder: Any
    ids: tuple[str, ...] = ()

    def __init__(self, lock: Any, owner: Owner, holder: str | None) -> None:
        _ = self.of(lock, owner.reference, "", 0.0, False)
        self.over, self.holder = ENDED, holder

    def not_held(self) -> NotHeldError:
        """Return the error for code that uses it like an acquired hold."""
        by = "" if self.holder is None else f"; held by {self.holder}"
        return NotHeldError(f"{self.lock!r} was not acquired{by}", name=self.name, owner=self.label)
