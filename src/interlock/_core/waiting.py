"""Waiting for something that another process announces: try, subscribe, try again, wait.

Pub/sub is a hint; looking is the truth. A release between the failed try and the subscription would otherwise go unheard, and
a message may be lost: so every confirmed subscription counts as a message, and a waiter looks again at the latest when the
holder's lease ends or the poll cap passes.

Source: RLock.tryLock(wait), Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Unpack

from interlock._core.effects import NEVER, A, Enqueue, Wait

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.effects import Op
    from interlock._core.holds import Hold
    from interlock._core.session import Session

EXPIRY_MARGIN = 0.001
"""Seconds after the end of a holder's lease at which a waiter looks again."""
FIRST_LOOK = 0.1
"""Seconds after which a waiter looks again although its subscription was not confirmed."""


def wait_for(
    session: Session,
    channel: str,
    deadline: float,
    taken_for: float | None,
    attempt: Callable[[Unpack[A]], Op[float | None]],
    *args: *A,
) -> Op[bool]:
    """Run *attempt* of *args* until it succeeds or *deadline* passes.

    Args:
        session: the client's state.
        channel: where to hear that trying again makes sense.
        deadline: on the session's clock; one that has passed means one try.
        taken_for: after a success, for how long nobody else can succeed (a lock's lease); None if others may at once.
        attempt: returns None for success, else the seconds after which trying again makes sense without a message.
        *args: for *attempt*.

    Returns:
        Whether an attempt succeeded.

    Cost:
        What one attempt costs; while waiting, one per message and per poll cap for all waiters of *channel* in this client.
    """
    if may_overtake(session, channel, deadline):
        left = yield from attempt(*args)
        if left is None:
            return True
    return (yield from wait_in_queue(session, channel, deadline, taken_for, attempt, *args))


def may_overtake(session: Session, channel: str, deadline: float) -> bool:
    """Return whether to try before queueing: who comes while others wait here queues behind them, but for a single try."""
    return not session.waiters.crowded(channel) or deadline <= session.clock()


def wait_in_queue(
    session: Session,
    channel: str,
    deadline: float,
    taken_for: float | None,
    attempt: Callable[[Unpack[A]], Op[float | None]],
    *args: *A,
    candidate: Hold | None = None,
    interval: Callable[[], float] | None = None,
) -> Op[bool]:
    """Wait as `wait_for` does, after a first attempt or without one.

    Args:
        session: as for `wait_for`, like the following ones.
        channel: see there.
        deadline: see there.
        taken_for: see there.
        attempt: see there; when the *candidate* was given what it waits for, it says so without asking.
        *args: see there.
        candidate: the hold that whoever releases may hand the lock over to.
        interval: returns the seconds after which to look again without a message; by default those
            of the poll cap.
    """
    interval = interval or session.poll_interval
    if session.clock() >= deadline:
        return False
    ticket = yield from Enqueue(channel)
    ticket.candidate = candidate
    try:
        look_at = session.clock() + _first_look(session, channel)
        while True:
            if ticket.gone:
                # It was given what it waits for; that is what it was woken for, and nothing that the next one has to look at.
                ticket.asking = False
                ticket.taken_for = taken_for
                return True
            if session.doomed:
                session.raise_doom(args)
            if ticket.front and ticket.inherited is not None:
                look_at = session.clock() + min(ticket.inherited, interval())
                ticket.inherited = None
            if ticket.front and (ticket.take() or session.clock() >= look_at):
                if session.waiters.begin_asking(ticket, session.clock()):
                    left = yield from attempt(*args)
                    ticket.busy = False
                    if left is None:
                        ticket.taken_for = taken_for
                        return True
                    look_at = session.clock() + min(left + EXPIRY_MARGIN, interval())
                else:
                    # It is being handed over; how that ends should be told before.
                    look_at = ticket.offered_until
            if session.clock() >= deadline:
                return session.waiters.give_up(ticket)
            yield Wait(ticket, min(deadline, look_at if ticket.front else NEVER))
    finally:
        # Before anything is undone: from now on nobody can make it the holder unnoticed.
        _ = session.waiters.give_up(ticket)


def _first_look(session: Session, channel: str) -> float:
    """Return the seconds after which who begins to wait looks, should no message come."""
    place = session.waiters.places.get(channel)
    if place is None or not place.taken or not session.waiters.hearing:
        return FIRST_LOOK
    return min(place.left + EXPIRY_MARGIN, session.poll_interval())
