"""A lock that a release may give to a waiter of another client, which starts without asking."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interlock._core.locks.lock_base import LockBase
from interlock._core.queue.starting import confirming, may_start, start
from interlock._core.queue.waiting import Turn

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.holds import Hold
    from interlock._core.queue.waiter import Claim


class StartedLock(LockBase):
    """A lock whose waiters stand in the server's queue, and may start without asking."""

    passes_locally = False
    """Whether a release may make a waiter of the same client the next holder."""
    may_start = True
    """Whether a release may make a waiter of another client the next holder."""

    def _wait(self, hold: Hold, deadline: float) -> Op[bool]:
        session, stands = self.session, self.stands_in_queue
        if stands and session.clock() < deadline:  # a single try has no place
            session.waiters.place_for(self.line, session.client_id)
        return self._wait_here(hold, deadline, self._turn(hold, stands))

    def _turn(self, hold: Hold, stands: bool) -> Turn:
        """Return how the lock may be given to *hold*; *stands*: the client is in the queue."""
        start = partial(self._start, hold) if self.may_start else None
        if not stands:
            return Turn(hold, start)
        return Turn(hold, start, partial(self.session.looks.given, self))

    def starts(self, hold: Hold, *, others_wait: bool) -> bool:
        return self.may_start and may_start(self.session, hold, others_wait=others_wait)

    def believes(self, claim: Claim) -> bool:
        """Return whether a hold may start with *claim*."""
        return claim.token is None

    def _start(self, hold: Hold, claim: Claim) -> Op[bool]:
        """Start with *claim*, which a release gave to *hold*; return whether it is held now."""
        believed = self.believes(claim)
        return start(self.session, self.line, hold, claim, self._keeping, believed=believed)

    def _keeping(self, hold: Hold) -> Eval[list[bool]]:
        """Return the command that keeps *hold* for a whole lease, and takes nothing.

        It may be shared: do not change it.
        """
        kept = self.kept_for(hold)
        if kept is None:
            return confirming(hold)
        if kept.renewal is None:
            kept.renewal = confirming(hold)
        return kept.renewal
