"""The stand-in for a hold if a lock was not acquired.

It has ended from the start, and it is never lost.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.hold import ENDED
from interlock.errors import NotHeldError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.holds import Line
    from interlock.errors import LossReason


class NoHold:
    """A hold that does not exist; it has what a face asks of a `Hold`.

    Args:
        kind: the kind of lock.
        name: its name.
        label: who wanted it.
        holder: who holds the lock instead; None if that is unknown.
    """

    token: int | None = None
    token_source: str | None = None
    ids: tuple[str, ...] = ()
    replicas: int | None = None
    depth = 0
    state = ENDED
    reason: LossReason | None = None
    detail = ""
    valid_until = 0.0
    line: Line | None = None

    def __init__(self, kind: str, name: str, label: str, holder: str | None) -> None:
        self.kind = kind
        self.name = name
        self.label = label
        self.holder = holder

    def valid(self, now: float) -> bool:
        """Return False."""
        del now
        return False

    def lost(self, now: float) -> bool:
        """Return False: it was never held, so it cannot be lost."""
        del now
        return False

    def expiry_reason(self) -> LossReason:
        """Return any reason: it is never lost, so nobody asks."""
        return "expired"

    def listen(self, callback: Callable[[], object]) -> bool:
        """Never call *callback*."""
        del callback
        return True

    def unlisten(self, callback: Callable[[], object]) -> None:
        """Do nothing: no callback is kept."""
        del callback

    def leaving(self) -> bool:
        """Return False."""
        return False

    def not_held(self) -> NotHeldError:
        """Return the error for code that uses it like an acquired hold."""
        by = "" if self.holder is None else f"; held by {self.holder}"
        return NotHeldError(
            f"{self.kind} {self.name!r} was not acquired{by}", name=self.name, owner=self.label
        )
