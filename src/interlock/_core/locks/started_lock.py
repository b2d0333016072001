"""A lock that a release may give to a waiter of another client, which starts without asking."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.locks.lock_base import LockBase
from interlock._core.queue.starting import Start, confirming, may_start
from interlock._core.queue.waiting import Turn

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.holds import Hold


class StartedLock(LockBase):
    """A lock whose waiters stand in the server's queue, and may start without asking."""

    passes_locally = False
    """Whether a release may make a waiter of the same client the next holder."""
    may_start = True
    """Whether a release may make a waiter of another client the next holder."""

    def _wait(self, hold: Hold, deadline: float) -> Op[bool]:
        session = self.session
        stands = session.has_queues and not self._shares_channels  # `queues_for` inlined
        if stands and session.clock() < deadline:  # a single try has no place
            session.waiters.place_for(self.line, session.client_id)
        start = self._start(hold) if self.may_start else None
        return self._wait_here(hold, deadline, Turn(hold, start, self if stands else None))

    def starts(self, hold: Hold, *, others_wait: bool) -> bool:
        return self.may_start and may_start(self.session, hold, others_wait=others_wait)

    def _start(self, hold: Hold) -> Start:
        """Return how *hold* starts when a release of another client has given it the lock."""
        return Start(self.session, hold, self._keeping)

    def _keeping(self, hold: Hold) -> Eval[list[bool]]:
        """Return the command that keeps *hold* for a whole lease, and takes nothing.

        It may be shared: do not change it.
        """
        kept = self._kept  # `kept_for` inlined
        if kept is None or kept.holder != hold.holder or kept.lease != hold.lease:
            return confirming(hold)
        if kept.renewal is None:
            kept.renewal = confirming(hold)
        return kept.renewal
