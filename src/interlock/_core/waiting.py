"""Waiting for something that another process announces: try, subscribe, try again, wait.

Pub/sub is a hint; looking is the truth. A release between the failed try and the subscription would otherwise go unheard, and
a message may be lost: so every confirmed subscription counts as a message, and a waiter looks again at the latest when the
holder's lease ends or the poll cap passes.

Source: RLock.tryLock(wait), Redisson 4.7.0 (redisson-wire 12); hazards R-16, R-19, R-21, R-22.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.effects import NEVER, Join, Wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.effects import Op
    from interlock._core.session import Session

EXPIRY_MARGIN = 0.001
"""Seconds after the end of a holder's lease at which a waiter looks again."""
FIRST_LOOK = 0.1
"""Seconds after which a waiter looks again although its subscription was not confirmed."""


def wait_for(
    session: Session,
    channel: str,
    deadline: float,
    attempt: Callable[[], Op[float | None]],
    taken_for: float | None,
) -> Op[bool]:
    """Run *attempt* until it succeeds or *deadline* passes.

    Args:
        session: the client's state.
        channel: where to hear that trying again makes sense.
        deadline: on the session's clock; one that has passed means one try.
        attempt: returns None for success, else the seconds after which trying again makes sense without a message.
        taken_for: after a success, for how long nobody else can succeed (a lock's lease); None if others may at once.

    Returns:
        Whether an attempt succeeded.

    Cost:
        What one attempt costs; while waiting, one per message and per poll cap for all waiters of *channel* in this client.
    """
    # Who comes while others wait here queues behind them; only a single try may overtake.
    if deadline <= session.clock() or not session.waiters.crowded(channel):
        left = yield from attempt()
        if left is None:
            return True
        if session.clock() >= deadline:
            return False
    ticket = yield from Join(channel)
    look_at = session.clock() + FIRST_LOOK
    while True:
        if ticket.front and (ticket.take() or session.clock() >= look_at):
            left = yield from attempt()
            if left is None:
                ticket.taken_for = taken_for
                return True
            look_at = session.clock() + min(left + EXPIRY_MARGIN, session.poll_interval())
        elif ticket.front and ticket.inherited is not None:
            look_at = session.clock() + min(ticket.inherited, session.poll_interval())
            ticket.inherited = None
        if session.clock() >= deadline:
            return False
        yield from Wait(ticket, min(deadline, look_at if ticket.front else NEVER))
