"""A lock that a release may give to a waiter of another client, which starts without asking.

A client with one waiter stands in the server's queue in the name of that waiter's hold. A release
makes this hold the holder for a short time, its claim, and says so in a message. The waiter begins
at once. The command that keeps the lock for a whole lease is on its way by then.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interlock._core.locks.lock_base import LockBase
from interlock._core.model.effects import NEVER, Post
from interlock._core.model.holds import CLAIM, Hold, State
from interlock._core.queue.waiting import NO_TURN, Turn, wait_in_queue

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval, Op
    from interlock._core.queue.waiter import Claim

MANY = 1000
"""A client with so many holds asks before it starts: its renewal thread looks at all of them."""


class StartedLock(LockBase):
    """A lock whose waiters stand in the server's queue, and may start without asking."""

    passes_locally = False
    """Whether a release may make a waiter of the same client the next holder."""
    may_start = True
    """Whether a release may make a waiter of another client the next holder."""

    def _wait(self, hold: Hold, deadline: float) -> Op[bool]:
        self._make_place(deadline)
        return wait_in_queue(
            self.session,
            self.queue,
            deadline,
            hold.lease,
            self._try,
            hold,
            deadline,
            turn=self._turn(hold) if self.passes_locally or self.may_start else NO_TURN,
        )

    def _turn(self, hold: Hold) -> Turn:
        """Return how the lock may be given to *hold*."""
        start = partial(self._start, hold) if self.may_start else None
        if not self.stands_in_queue:
            return Turn(hold, start)
        return Turn(hold, start, partial(self.session.looks.given, self))

    def starts(self, hold: Hold, *, others_wait: bool) -> bool:
        """Return whether the client is to stand in the server's queue in the name of *hold*.

        It is if *hold* waits alone. If others come later, it stays so.
        """
        session = self.session
        return (
            self.may_start
            and (hold.placed or not others_wait)
            and session.may_pass_on
            and hold.lease > 2 * CLAIM
            and len(session.holds) < MANY
        )

    def believes(self, claim: Claim) -> bool:
        """Return whether a hold may start with *claim*."""
        return claim.token is None

    def _start(self, hold: Hold, claim: Claim) -> Op[bool]:
        """Start with *claim*, which a release gave to *hold*, if it stands.

        Return whether *hold* is held now. The command that keeps it for the whole lease is on its
        way before the caller goes on. It takes nothing, so it may come late. Without an answer the
        renewal thread asks again.

        If no reply to a try came, a copy of it may still take the lock once the claim is over. Then
        it would look as if the claim had been kept. So *hold* asks.
        """
        session = self.session
        now = sent_at = session.clock()
        stands = now + CLAIM / 2 < hold.claim_end(claim.at, now)
        if hold.unanswered or not stands or not self.believes(claim):
            return False
        hold.sent()
        post = Post(self._keeping(hold), partial(_confirm, hold, sent_at))
        if not (yield from post) or not hold.start(claim.token, claim.at, session.clock()):
            hold.uncount_try()
            return False
        hold.uncount_try()
        session.watchdog.expect(hold, session.clock())
        session.waiters.started(self.queue, hold.holder)
        if session.holds.observer is not None:
            session.holds.observer.acquired(hold, sent_at)
        return True

    def _keeping(self, hold: Hold) -> Eval[list[bool]]:
        """Return the command that keeps *hold* for a whole lease, and takes nothing."""
        kept = self.kept_for(hold)
        last = None if kept is None else kept.renewal
        if last is not None:
            return last.anew()
        call = self.renewal([self.key], hold.lease, [hold.holder], deadline=NEVER)
        if kept is not None:
            kept.renewal = call
        return call


def _confirm(hold: Hold, sent_at: float, reply: object) -> None:
    """Take the undecoded *reply* to the command that keeps *hold*, which was sent at *sent_at*."""
    if reply == [1] and hold.state is State.HELD:
        hold.extend_validity(sent_at, hold.lease)
