"""What a release may give to a waiter of another client, which starts without asking.

A client with one waiter stands in the server's queue in the name of that waiter's hold. A release
makes this hold the holder for a short time, its claim, and says so in a message. The waiter begins
at once. The command that keeps it for a whole lease is on its way by then.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER, Post
from interlock._core.model.holds import CLAIM, State

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.holds import Hold
    from interlock._core.queue.lines import Line
    from interlock._core.queue.waiter import Claim
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


def start(
    session: Session,
    line: Line,
    hold: Hold,
    claim: Claim,
    keeping: Callable[[Hold], Eval[list[bool]]],
    *,
    believed: bool = True,
) -> Op[bool]:
    """Start with *claim*, which a release gave to *hold*, if it stands.

    Return whether *hold* is held now. The command that keeps it for the whole lease is on its way
    before the caller goes on. It takes nothing, so it may come late. Without an answer the renewal
    thread asks again.

    If no reply to a try came, a copy of it may still take the lock once the claim is over. Then it
    would look as if the claim had been kept. So *hold* asks.

    Args:
        session: the client's state.
        line: what *hold* waits for.
        hold: who was made the holder.
        claim: the message that says so.
        keeping: returns the command that keeps *hold* for a whole lease, and takes nothing. It is
            not changed.
        believed: whether a hold of this kind may start with *claim*.
    """
    sent_at = session.clock()
    until = hold.claim_end(claim.at, sent_at)
    if not believed or hold.unanswered or sent_at + CLAIM / 2 >= until:
        return False
    hold.sent()
    sent = yield Post(keeping(hold), partial(_confirm, session, hold, sent_at))
    now = session.clock()
    started = sent and hold.start(claim.token, until, now)
    hold.uncount_try()
    if not started:
        return False
    session.watchdog.expect(hold, now)
    session.waiters.started(line, hold.holder)
    if session.holds.observer is not None:
        session.holds.observer.acquired(hold, sent_at)
    return True


def confirming(hold: Hold) -> Eval[list[bool]]:
    """Return the command that renews *hold*, and takes nothing."""
    core = hold.core
    return core.renewal([core.key], hold.lease, [hold.holder], deadline=NEVER)


def _confirm(session: Session, hold: Hold, sent_at: float, reply: object) -> None:
    """Take the undecoded *reply* to the command that keeps *hold*, which was sent at *sent_at*."""
    if reply == [1] and hold.state is State.HELD:
        hold.extend_validity(sent_at, hold.lease)
        session.watchdog.confirmed(hold)
