"""The spin lock.

A plain lock without messages. Who waits tries again after a pause; releasing tells nobody.

For thousands of locks that are hardly ever waited for, or a server without pub/sub. Who waits for
the same name as a plain lock is not told by a spin lock's release either, and looks again at its
poll cap.

The last try is made at the deadline, not a pause behind it as Redisson's, which may wait longer
than it was told.

Source: RedissonSpinLock, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.effects import Wait
from interlock._core.lock import Lock

if TYPE_CHECKING:
    from interlock._core.effects import Op
    from interlock._core.holds import Hold
    from interlock._core.session import Session
    from interlock.backoff import Backoff


class SpinLock(Lock):
    """A plain lock that is waited for by trying again."""

    kind = "spin lock"

    def __init__(
        self, session: Session, name: str, *, backoff: Backoff, reentrant: bool = True
    ) -> None:
        super().__init__(session, name, reentrant=reentrant)
        self._backoff = backoff

    @property
    def _publish(self) -> str:
        return ""

    def _wait(self, hold: Hold, deadline: float) -> Op[bool]:
        session = self._session
        pauses, pause = self._backoff.pauses(session.random), session.poll_interval()
        while (now := session.clock()) < deadline:
            pause = next(pauses, pause)
            yield from Wait(None, min(deadline, now + pause))
            left = yield from self._try(hold, deadline)
            if left is None:
                return True
        return False
