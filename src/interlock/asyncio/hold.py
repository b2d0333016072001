"""What a holder has in its hands."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.holds import State
from interlock._drivers.tasks import LostEvent
from interlock._misuse import LOCK_NAMES, suggests, wants_async_with
from interlock.errors import HoldLostError, NotHeldError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.holds import Possession
    from interlock._drivers.aio import AsyncDriver


@wants_async_with
@suggests(LOCK_NAMES)
class Hold:
    """One owner's possession of one name; truthy while it lasts.

    Whatever is asked here is answered from local knowledge, without a round trip. A hold is *valid* until the lease that the
    server last acknowledged may have ended, by a clock that counts the time a machine is suspended; nobody else can hold the
    lock until then.

    Attributes:
        name: what is held.
        lost: an event that is set when the hold ended without being released (`is_set`, `wait`).
    """

    def __init__(self, driver: AsyncDriver, hold: Possession) -> None:
        self._driver = driver
        self._hold = hold
        self.name = hold.name
        self.lost = LostEvent(driver, hold)

    def __repr__(self) -> str:
        state = "valid" if self.valid else "lost" if self.lost.is_set() else "over"
        return f"<Hold {self.name!r} {state} holder={self.holder}>"

    def __bool__(self) -> bool:
        return self.valid

    def __reduce__(self) -> str:
        raise TypeError("a hold belongs to one client in one process and cannot be pickled")

    @property
    def holder(self) -> str:
        """Return ``"<client id>:<number>"``, as the server knows the holder."""
        return self._hold.holder

    @property
    def token(self) -> int | None:
        """Return the fencing token, or None for a lock without one."""
        return self._hold.token

    @property
    def replicas(self) -> int | None:
        """Return how many replicas had it when it was acquired; None when they were not asked (`Options.replicas`)."""
        return self._hold.replicas

    @property
    def depth(self) -> int:
        """Return how often the lock was entered; 0 when the hold is over."""
        return self._hold.depth if self._hold.state is State.HELD else 0

    @property
    def valid(self) -> bool:
        """Return whether nobody else can hold the lock now."""
        return self._hold.valid(self._driver.session.clock())

    @property
    def remaining(self) -> float:
        """Return for how many seconds the hold is valid without another renewal; 0 when it is over."""
        if not self.valid:
            return 0.0
        return max(0.0, self._hold.valid_until - self._driver.session.clock())

    def ensure(self) -> None:
        """Raise unless the hold is valid.

        Raises:
            HoldLostError: it was lost.
            NotHeldError: it was released.
        """
        if self.valid:
            return
        if self.lost.is_set():
            reason = self._hold.reason or self._hold.expiry_reason()
            raise HoldLostError(f"{self.name!r} was lost ({reason})", name=self.name, reason=reason)
        raise NotHeldError(f"{self.name!r} was released", name=self.name, owner=self._hold.label)

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Have *callback* called once when the hold is lost; at once if it is already.

        It runs in the event loop. What it raises is reported and stops nothing.
        """
        self._driver.on_lost(self._hold, callback)

    # asyncio only
    def cancel_on_lost(self) -> None:
        """Cancel the running task when the hold is lost.

        Leaving ``async with`` then raises HoldLostError in place of the CancelledError.
        """
        self._driver.cancel_on_lost(self._hold)

    # end
    async def release(self) -> None:
        """Go down by one depth, from whatever task; free the lock at 0.

        Raises:
            NotHeldError: it was released before.
            HoldLostError: it was lost before.
            ServerUnavailableError: no reply; it may be tried again.
        """
        await self._driver.run(self._hold.release())
