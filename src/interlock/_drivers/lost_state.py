"""What both events of a lost hold have in common: whether it is lost, and why."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

if TYPE_CHECKING:
    from interlock._core.model.hold import Hold
    from interlock.errors import LossReason


class LostState:
    """Whether *hold*, of the client of *driver*, has ended without being released."""

    def __init__(self, driver: Any, hold: Hold) -> None:
        self._driver = driver
        self._hold = hold

    def is_set(self) -> bool:
        """Return whether the hold is lost, as far as is known here; no round trip."""
        return self._hold.lost(self._driver.session.clock())

    @property
    def reason(self) -> LossReason | None:
        """Return why the hold is lost, as `HoldLostError` tells it; None if it is not lost."""
        return (self._hold.reason or self._hold.expiry_reason()) if self.is_set() else None

    @property
    def detail(self) -> str:
        """Return what more is known of the loss, as `HoldLostError` tells it; may be empty."""
        return self._hold.detail if self.is_set() else ""

    def __bool__(self) -> NoReturn:
        raise TypeError("hold.lost is an event: use hold.lost.is_set(), or hold.valid")
