"""Waiting for something that another process announces: try, subscribe, try again, wait.

Pub/sub is only a hint; the server knows the truth. The lock may be released between the failed try
and the subscription, and a message may be lost. So a confirmed subscription counts as a message.
And a waiter looks again when the holder's lease ends, or after a poll cap.

Source: RLock.tryLock(wait), Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple, Unpack

from interlock._core.model.effects import NEVER, A, Enqueue, Wait
from interlock._core.queue.waiters import SHARED

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.holds import Hold
    from interlock._core.queue.grant_looks import Given
    from interlock._core.queue.lines import Line
    from interlock._core.queue.places import Place
    from interlock._core.queue.starting import Start
    from interlock._core.queue.waiter import Waiter, Wish
    from interlock._core.upkeep.session import Session

EXPIRY_MARGIN = 0.001
"""Seconds after the end of a holder's lease at which a waiter looks again."""
QUEUE_KEPT = 5
"""How many poll caps the server keeps its queue after a request; at least four fifths of that."""
QUEUE_GRACE = 5.0
"""Seconds for which the background tries to give up a place in the server's queue."""
FIRST_LOOK = 0.1
"""Seconds after which a waiter looks again although its subscription was not confirmed."""


class Turn(NamedTuple):
    """How a lock may be given to one who waits.

    Attributes:
        candidate: the hold that a release may hand the lock over to.
        start: how the candidate starts with a claim; None if it asks.
        look: what to look at if it has asked again, in vain and without a message. Or all were told
            of permits, and it has asked in vain. None if nobody looks.
        wish: returns what operators are told of the waiter; None for a hold, which tells it itself.
    """

    candidate: Hold | None = None
    start: Start | None = None
    look: Given | None = None
    wish: Callable[[], Wish] | None = None


NO_TURN: Final = Turn()
"""Only an attempt can get it."""


def wait_for(
    session: Session,
    line: Line,
    deadline: float,
    successor_look: float | None,
    attempt: Callable[[Unpack[A]], Op[float | None]],
    *args: *A,
) -> Op[bool]:
    """Run *attempt* with *args* until it succeeds or *deadline* passes.

    Args:
        session: the client's state.
        line: where to wait; the messages of its channel tell when to try again.
        deadline: on the session's clock; one that has passed means one try.
        successor_look: after a success, the seconds after which the next waiter looks: nobody else
            can succeed before (a lock's lease). None if others may succeed at once; `SHARED` if the
            server then wakes the next one.
        attempt: returns None for success, else the seconds after which to try again without a
            message.
        *args: for *attempt*.

    Returns:
        Whether an attempt succeeded.

    Cost:
        What one attempt costs. While waiting: one per message and per poll cap, for all waiters
        of *line* in this client.
    """
    if may_try_first(session, line, deadline):
        remaining = yield from attempt(*args)
        if remaining is None:
            return True
    return (yield from wait_in_queue(session, line, deadline, successor_look, attempt, *args))


def may_try_first(session: Session, line: Line, deadline: float) -> bool:
    """Return whether to try before queueing in this client.

    A newcomer queues behind those who wait here, except with a single try.
    """
    return not session.waiters.has_waiters(line) or deadline <= session.clock()


def wait_in_queue(
    session: Session,
    line: Line,
    deadline: float,
    successor_look: float | None,
    attempt: Callable[[Unpack[A]], Op[float | None]],
    *args: *A,
    turn: Turn = NO_TURN,
    interval: Callable[[], float] | None = None,
    shares: bool = False,
) -> Op[bool]:
    """Wait as `wait_for` does, after a first attempt or without one.

    Args:
        session: as for `wait_for`.
        line: as for `wait_for`.
        deadline: as for `wait_for`.
        successor_look: as for `wait_for`.
        attempt: as for `wait_for`; None without asking if the candidate was given the lock.
        *args: as for `wait_for`.
        turn: how it may be given the lock.
        interval: returns the seconds between looks; default: `Session.poll_interval`.
        shares: whether others may have it at the same time, as readers do.
    """
    interval, start = interval or session.poll_interval, turn.start
    if session.clock() >= deadline:
        return False
    waiter: Waiter = yield Enqueue(line)  # type: ignore[assignment]
    session.waiters.introduce(waiter, turn.candidate, shares=shares, wish=turn.wish)
    try:
        look_at = session.clock() + _first_look(session, line)
        while True:
            claim, waiter.claim = waiter.claim, None
            post = start.begin(claim) if claim and start and not waiter.departed else None
            if waiter.departed or (post and start and start.done(waiter, (yield post))):
                # It was given the lock, so the next one need not look.
                waiter.should_ask, waiter.successor_look = False, successor_look
                return True
            look_at = _next_look(waiter, session, interval, look_at)
            told = claim or (waiter.front and waiter.should_ask and waiter.take())
            if told or (waiter.front and session.clock() >= look_at):
                if session.waiters.begin_asking(waiter, session.clock()):
                    remaining = yield from attempt(*args)
                    waiter.busy = False
                    if remaining is None:
                        waiter.successor_look = successor_look
                        return True
                    if turn.look is not None and _is_doubtful(waiter, told, successor_look):
                        session.looks.given(turn.look, session.clock())
                    look_at = session.clock() + min(remaining + EXPIRY_MARGIN, interval())
                else:
                    look_at = waiter.offered_until  # it is being passed on; that is told earlier
            if session.clock() >= deadline:
                return session.waiters.give_up(waiter)
            yield Wait(waiter, min(deadline, look_at if waiter.front else NEVER))
    finally:
        # Before anything is undone: from now on nobody can make it the holder unnoticed.
        _ = session.waiters.give_up(waiter)


def leave_queue(
    session: Session,
    line: Line,
    leave: Callable[[Place], Eval[int]],
    error: BaseException | None = None,
    *,
    later: bool = False,
    hold: Hold | None = None,
) -> Op[None]:
    """Give up the client's place in the server's queue, if its last waiter here goes.

    The script passes on a wake-up that the client has not used.

    Args:
        session: the client's state.
        line: as for `wait_for`.
        leave: returns the script that gives up a place.
        error: the error that ended the wait, if any.
        later: whether the background sends the script; then the caller does not wait.
        hold: whose wait ends; the client may stand there in its name.
    """
    own = hold is not None and hold.step_out()
    place = session.waiters.vacate(line, holder=hold.holder if hold and own else "", own=own)
    if place is None:
        return
    until = session.clock() + QUEUE_GRACE
    yield from session.clean_up(leave(place), until, error=error, later=later)


def _next_look(
    waiter: Waiter, session: Session, interval: Callable[[], float], look_at: float
) -> float:
    """Return when the front waiter looks next: at *look_at*, or when it was told to."""
    if waiter.front and waiter.next_look is not None:
        look_at = session.clock() + min(waiter.next_look, interval())
        waiter.next_look = None
    return look_at


def _is_doubtful(waiter: Waiter, told: object, successor_look: float | None) -> bool:
    """Return whether *waiter* asked in vain because of others who may have died.

    If all were *told* of permits, the first to ask woke those before it. A waiter that was told in
    another way knows who looks.
    """
    before = waiter.refused()
    if not told:
        return before
    announced, waiter.announced = waiter.announced, False
    return announced and successor_look == SHARED


def _first_look(session: Session, line: Line) -> float:
    """Return the seconds after which a new waiter looks, if no message comes."""
    place = session.waiters.places.get(line)
    if place is None or not place.taken or not session.waiters.hearing:
        return FIRST_LOOK
    return min(place.remaining + EXPIRY_MARGIN, session.poll_interval())
