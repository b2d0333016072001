"""The end of a hold: released, extended, or found to be lost.

These operations concern a hold, whatever kind of lock it is of; its recipe supplies the scripts.

Source: RLock.unlock, Redisson 4.7.0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, cast

from interlock._core import strays
from interlock._core.effects import undoing
from interlock._core.holds import State
from interlock._core.session import GRACE
from interlock.errors import (
    AcquireTimeoutError,
    HoldLostError,
    InterlockError,
    NotHeldError,
    ServerUnavailableError,
)
from interlock.options import check_lease

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.effects import Eval, Op
    from interlock._core.holds import Hold
    from interlock._core.lock import Lock
    from interlock._core.session import Session
    from interlock._core.tickets import Ticket
    from interlock._core.waiters import Waiters


def release(session: Session, hold: Hold) -> Op[None]:
    """Go down by one depth in *hold*, whoever asks; free the lock at 0.

    Raises:
        NotHeldError: it was released before; nothing was changed.
        HoldLostError: it was lost before.
        ServerUnavailableError: no reply to the last release; the hold is not renewed any more, and releasing it may be tried again.

    Cost:
        One round trip. With others waiting in this client the lock is theirs after it, without one of their own.
    """
    now = session.clock()
    if hold.lost(now):
        yield from _bury(session, hold)
        raise lost(hold)
    # From here to the new depth no call is made, so that no thread comes in between.
    if hold.state is State.PENDING or hold.state is State.ENDED:
        raise not_held(hold.recipe.kind, hold.name, hold.label)
    # A release that was begun before may have been executed, whatever became of its caller.
    begun = hold.state is State.ENDING
    depth = hold.depth - 1
    if depth == 0:
        hold.state = State.ENDING
    else:
        # At once, so that an owner who enters again meanwhile, while another thread releases here, counts from there.
        hold.depth = depth
    recipe = hold.recipe
    call: Eval[int] | None = None
    failure: BaseException | None = None
    done = 0
    try:
        if (
            depth == 0
            and recipe.hands_over
            and session.waiters.crowded(_lock(hold).channel)
            and session.counts_waiters
        ):
            yield from _release_to_waiters(session, hold, now, begun=begun)
            return
        call = recipe.release_script(hold, depth)
        # The hot path, one generator deep. What does not end it goes on below.
        done = call.script.decode((yield call))
        if done and not hold.strays:
            note(session, hold, depth)
            return
    except GeneratorExit:
        raise
    except BaseException as error:
        # A Ctrl-C that struck before anything was sent must not leave the lock to nobody either.
        if call is None and (isinstance(error, Exception) or hold.state is not State.ENDING):
            raise
        failure = error
    _ = yield from carry_on(session, hold, depth, call, done, failure, begun=begun)


def carry_on(
    session: Session,
    hold: Hold,
    depth: int,
    call: Eval[int] | None,
    done: int,
    failure: BaseException | None,
    *,
    begun: bool = False,
) -> Op[int]:
    """Carry a release to *depth* through whose first try, *call* if there was one, came to *done* or ended by *failure*.

    *begun*: a release was sent before. Returns what the server says; errors as `release`.
    """
    call = call.anew() if call is not None else hold.recipe.release_script(hold, depth)
    if failure is not None:
        # When its validity is over there is nothing left to release; who releases many at once has set a time before.
        sat_out = session.clock() + session.options.outage_timeout
        call.deadline = min(call.deadline, hold.valid_until, sat_out)
        try:
            done = yield from undoing(session.again(call, failure), _finish, session, hold, depth)
        except ServerUnavailableError:
            if depth == 0:
                raise
            # It stays held, and the server only counts along: it is told of the new depth in the background. Were this an error,
            # a caller that goes on could not know how many releases are still to come.
            done = True
    # Another thread may have released the last depth meanwhile: then there is nothing left to go down in.
    freed = depth > 0 and (hold.state is State.ENDING or hold.state is State.ENDED)
    gone = not done and not (begun or freed or call.unknown or hold.unsettled)
    if depth == 0 and (call.unknown or hold.strays):
        strays.retire_number(hold)  # an earlier try may still be under way
    if gone:
        yield from _drop(session, hold)
        raise lost(hold)
    note(session, hold, depth)
    if depth == 0:
        yield from strays.outlive(session, hold)
    return done


class _Offer:
    """A lock that is given to the first who waits here.

    Who gets it is told as soon as the reply is read, where the driver can: its own command is on the way then before the former
    holder goes on with whatever it does next.
    """

    __slots__ = ("_accept", "_end", "orphaned")

    def __init__(self, waiters: Waiters, ticket: Ticket, accept: Callable[[], bool]) -> None:
        self._end = partial(waiters.conclude, ticket)
        self._accept: Callable[[], bool] | None = accept
        self.orphaned = False

    def answered(self, reply: object) -> None:
        """Take the server's bare *reply*, should it say that the lock was given."""
        if reply == 1:
            self.conclude(given=True)

    def conclude(self, *, given: bool) -> None:
        """Have the waiter hold what was *given* to it, or ask; what it has left behind is *orphaned*. The first time counts."""
        accept, self._accept = self._accept, None
        if accept is not None:
            left = self._end(accept if given else None)
            self.orphaned = given and left


def _release_to_waiters(session: Session, hold: Hold, now: float, *, begun: bool) -> Op[None]:
    """Release *hold* while others wait here: hand the lock over to the first of them, or free it for all now and then."""
    recipe, waiters = _lock(hold), session.waiters
    ticket = waiters.offer(recipe.channel, type(recipe), now)
    heir = None if ticket is None else ticket.candidate
    offer: _Offer | None = None
    if ticket is None or heir is None:
        call = recipe.release_script(hold, 0)
    else:
        offer = _Offer(waiters, ticket, partial(recipe.given, heir, now))
        call = recipe.hand_over_script(hold, heir)
        call.then = offer.answered
    failure: BaseException | None = None
    done = 0
    try:
        try:
            done = call.script.decode((yield call))
        except GeneratorExit:
            raise
        except BaseException as error:  # noqa: BLE001 - as above
            failure = error
        done = yield from carry_on(session, hold, 0, call, done, failure, begun=begun)
    finally:
        if offer is None:
            waiters.freed(recipe.channel, done - 1, session.clock())
        else:
            # Without a clear answer the waiter asks: it is the holder, or the lock is free, or soon will be.
            offer.conclude(given=done > 0)
    if heir is not None and offer is not None and offer.orphaned:
        # It has left; what it undid may have come before what it was given.
        yield from session.settle(recipe.release_script(heir, 0), now + heir.lease)


def _lock(hold: Hold) -> Lock:
    """Return what *hold* is of; only plain locks hand over."""
    return cast("Lock", hold.recipe)


def extend(session: Session, hold: Hold, lease: float) -> Op[None]:
    """Have at least *lease* seconds from now.

    Raises:
        HoldLostError: it is lost.

    Cost:
        One round trip.
    """
    lease = check_lease(lease)
    if hold.lost(session.clock()):
        yield from _bury(session, hold)
        raise lost(hold)
    sent_at = session.clock()
    deadline = min(hold.valid_until, sent_at + session.options.outage_timeout)
    call = hold.recipe.renewal([hold.key], lease, [hold.holder], deadline=deadline)
    kept = yield from session.persist(call)
    if not kept[0]:
        yield from _drop(session, hold)
        raise lost(hold)
    hold.extend_validity(sent_at, lease)
    if hold.lost(session.clock()):
        # The answer took longer than the lease: somebody else may hold it by now.
        yield from _bury(session, hold)
        raise lost(hold)
    session.watchdog.watch(hold)


def _finish(session: Session, hold: Hold, depth: int, error: BaseException) -> Op[None]:
    """Carry a release through that ended by *error*; the hold is not renewed meanwhile."""
    hold.unsettled = True
    call, until, late = hold.recipe.release_script(hold, depth), hold.valid_until, 0
    if depth == 0:
        strays.retire_number(hold)
        until, late = strays.reach(hold, until, session.clock())
    if isinstance(error, InterlockError):
        yield from session.leave(call, until, late)
    else:
        yield from session.settle(call, until, late=late)
        note(session, hold, depth)


def note(session: Session, hold: Hold, depth: int) -> None:
    """Note that *hold* has gone down to *depth*."""
    hold.unsettled = False
    if depth == 0:
        hold.depth = 0
        session.holds.end(hold)


def _bury(session: Session, hold: Hold) -> Op[None]:
    """Forget a lost hold; should the server still have it, that ends too."""
    replaced = hold not in session.holds
    session.lose(hold, hold.expiry_reason())
    # A hold that its owner has acquired anew meanwhile may stand under the same field: it is not ours to end.
    if replaced:
        return
    if hold.reason == "force-released":
        yield from _drop(session, hold)
        return
    strays.retire_number(hold)
    session.holds.end(hold)
    now = session.clock()
    until, late = strays.reach(hold, now + GRACE, now)
    yield from session.leave(hold.recipe.release_script(hold, 0), until, late)


def _drop(session: Session, hold: Hold) -> Op[None]:
    """Note that the server does not know *hold* any more."""
    if hold.strays:
        strays.retire_number(hold)
    session.lose(hold, "force-released")
    session.holds.end(hold)
    yield from strays.outlive(session, hold)


def not_held(kind: str, name: str, who: str) -> NotHeldError:
    """Return the error for *who* does not hold what it wants to end."""
    return NotHeldError(
        f"{kind} {name!r} is not held by {who}; nothing was changed", name=name, owner=who
    )


def not_acquired(kind: str, name: str, timeout: float, holder: str | None) -> AcquireTimeoutError:
    """Return the error for what was not acquired in *timeout* seconds."""
    return AcquireTimeoutError(
        f"{kind} {name!r} not acquired in {timeout:g} s"
        + (f"; held by {holder}" if holder else ""),
        name=name,
        timeout=timeout,
        holder=holder,
    )


def lost(hold: Hold) -> HoldLostError:
    """Return the error for the holder of what is lost."""
    reason = hold.reason or "expired"
    return HoldLostError(
        f"{hold.recipe.kind} {hold.name!r} was lost ({reason}) before {hold.label} released it",
        name=hold.name,
        reason=reason,
    )
