"""What a release may give to a waiter of another client, which starts without asking.

A client with one waiter stands in the server's queue in the name of that waiter's hold. A release
makes this hold the holder for a short time, its claim, and says so in a message. The waiter begins
at once. The command that keeps it for a whole lease is on its way by then.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER, Post
from interlock._core.model.holds import CLAIM, HELD

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Eval
    from interlock._core.model.holds import Hold
    from interlock._core.queue.waiter import Claim, Waiter
    from interlock._core.upkeep.session import Session

MANY = 1000
"""A client with so many holds asks before it starts: its renewal thread looks at all of them."""


def may_start(session: Session, hold: Hold, *, others_wait: bool) -> bool:
    """Return whether the client is to stand in the server's queue in the name of *hold*.

    It is if *hold* waits alone. If others come later, it stays so.
    """
    return (
        (hold.placed or not others_wait)
        and session.may_pass_on
        and hold.lease > 2 * CLAIM
        and len(session.holds.table) < MANY
    )


class Start:
    """How *hold*, which waits, starts when a release has made it the holder.

    A waiter that hears of its claim posts what `begin` returns, and tells `done` whether it was
    sent. The command keeps *hold* for the whole lease, and is on its way before the caller goes on.
    It takes nothing, so it may come late. Without an answer the renewal thread asks again.

    Args:
        session: the client's state.
        hold: who may be made the holder.
        keeping: returns the command that keeps *hold* for a whole lease, and takes nothing. It is
            not changed.
        believes: returns whether a hold of this kind may start with a claim; None if it may with
            each that has no token.
        begun: called with the claim when *hold* has started; None for nothing.
    """

    __slots__ = (
        *("_begun", "_believes", "_claim", "_hold", "_keeping"),
        *("_sent_at", "_session", "_until"),
    )
    _claim: Claim

    def __init__(
        self,
        session: Session,
        hold: Hold,
        keeping: Callable[[Hold], Eval[list[bool]]],
        believes: Callable[[Claim], bool] | None = None,
        begun: Callable[[Hold, Claim], None] | None = None,
    ) -> None:
        self._session = session
        self._hold = hold
        self._keeping = keeping
        self._believes = believes
        self._begun = begun
        self._sent_at = self._until = 0.0

    def begin(self, claim: Claim) -> Post[list[bool]] | None:
        """Return what to post before *hold* starts with *claim*; None if it must ask.

        If no reply to a try came, a copy of it may still take the lock once the claim is over. Then
        it would look as if the claim had been kept. So *hold* asks.
        """
        session, hold, believes = self._session, self._hold, self._believes
        clock = session.clock  # bound first: else Python 3.11 looks for a method
        sent_at = self._sent_at = clock()
        self._claim = claim
        until = self._until = hold.claim_end(claim.at, sent_at)
        believed = claim.token is None if believes is None else believes(claim)
        if not believed or hold.unanswered or sent_at + CLAIM / 2 >= until:
            return None
        hold.sent()
        return Post(self._keeping(hold), partial(self._confirm, sent_at))

    def done(self, waiter: Waiter, sent: object) -> bool:
        """Take whether the command was *sent*; return whether *hold* is held now.

        If it is, *waiter* waits no more.
        """
        session, hold, claim = self._session, self._hold, self._claim
        clock = session.clock
        now = clock()
        if not (sent and hold.start(claim.token, self._until, now)):
            hold.uncount_try()
            return False
        session.watchdog.expect(hold, now)
        session.waiters.started(waiter, hold.holder)
        if session.holds.observer is not None:
            session.holds.observer.acquired(hold, self._sent_at)
        if self._begun is not None:
            self._begun(hold, claim)
        return True

    def _confirm(self, sent_at: float, reply: object) -> None:
        """Take the undecoded *reply* to the command that keeps *hold*, sent at *sent_at*."""
        hold = self._hold
        if reply == [1] and hold.state is HELD:
            hold.extend_validity(sent_at, hold.lease)
            self._session.watchdog.confirmed(hold, sent_at)


def confirming(hold: Hold) -> Eval[list[bool]]:
    """Return the command that renews *hold*, and takes nothing."""
    core = hold.core
    return core.renewal([core.key], hold.lease, [hold.holder], deadline=NEVER)
