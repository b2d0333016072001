"""The spin lock: a plain lock whose waiters have no place, and try again after a pause.

It gets what the queue leaves. Its releases send no messages, so its users need no right to them, and
who waits for a plain lock of the same name finds it free at the next look. The last try is made at
the deadline; Redisson's comes one pause later.

Source: RedissonSpinLock, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.locks.base import Lock
from interlock._core.model.effects import Op, Wait
from interlock._core.queue.places import POLL

if TYPE_CHECKING:
    from interlock._core.model.hold import Hold
    from interlock._core.upkeep.session import Session
    from interlock.backoff import Backoff


class SpinLock(Lock):
    """A plain lock whose waiters try again after a pause, as long as *backoff* says."""

    kind = "spin lock"
    queues = False

    def __init__(
        self, session: Session, name: str, key: str, *, backoff: Backoff, **options: Any
    ) -> None:
        super().__init__(session, name, key, **options)
        self.backoff = backoff

    @property
    def publish(self) -> str:
        return ""

    def wait(self, hold: Hold, deadline: float) -> Op[bool]:
        session, pauses = self.session, self.backoff.pauses(self.session.random)
        while (now := session.clock()) < deadline:
            yield from Wait(None, min(deadline, now + next(pauses, POLL)))
            if self.granted(hold, (yield from self.attempt(hold, deadline, None))):
                return True
        return False
