"""The spin lock.

A plain lock without messages. A waiter tries again after a pause; a release tells nobody.

It is for thousands of locks that rarely have waiters, or for a server without pub/sub. A spin
lock's release does not tell the waiters of a plain lock of the same name either. They look again
after their poll cap.

The last try is made at the deadline. Redisson's last try comes one pause later, so it may wait
longer than the caller wants.

Source: RedissonSpinLock, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.locks.lock import Lock
from interlock._core.model.effects import Wait

if TYPE_CHECKING:
    from interlock._core.model.effects import Op
    from interlock._core.model.holds import Hold
    from interlock._core.upkeep.session import Session
    from interlock.backoff import Backoff


class SpinLock(Lock):
    """A plain lock whose waiters try again after a pause."""

    kind = "spin lock"
    may_start = False

    def __init__(
        self, session: Session, name: str, *, backoff: Backoff, reentrant: bool = True
    ) -> None:
        super().__init__(session, name, reentrant=reentrant)
        self._backoff = backoff

    @property
    def _publish(self) -> str:
        return ""

    def _wait(self, hold: Hold, deadline: float) -> Op[bool]:
        session = self.session
        pauses, pause = self._backoff.pauses(session.random), session.poll_interval()
        while (now := session.clock()) < deadline:
            pause = next(pauses, pause)
            yield from Wait(None, min(deadline, now + pause))
            remaining = yield from self._try(hold, deadline)
            if remaining is None:
                return True
        return False
