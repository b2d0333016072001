"""The end of a hold: released, extended, or found to be lost.

These operations concern a hold, whatever kind of lock it is of; its recipe supplies the scripts.

Source: RLock.unlock, Redisson 4.7.0 (redisson-wire 1); hazards R-11, R-15, P-04.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.effects import Settle, undoing
from interlock._core.holds import State
from interlock._core.session import GRACE
from interlock.errors import HoldLostError, InterlockError, NotHeldError, ServerUnavailableError
from interlock.options import check_lease

if TYPE_CHECKING:
    from interlock._core.effects import Op
    from interlock._core.holds import Hold
    from interlock._core.session import Session


def release(session: Session, hold: Hold) -> Op[None]:  # noqa: C901 - the hot path is one function
    """Go down by one depth in *hold*, whoever asks; free the lock at 0.

    Raises:
        NotHeldError: it was released before; nothing was changed.
        HoldLostError: it was lost before.
        ServerUnavailableError: no reply to the last release; the hold is not renewed any more, and releasing it may be tried again.

    Cost:
        One round trip.
    """
    if hold.state in (State.PENDING, State.ENDED):
        raise not_held(hold.recipe.kind, hold.name, hold.label)
    if hold.lost(session.clock()):
        yield from _bury(session, hold)
        raise lost(hold)
    # A release that was begun before may have been executed, whatever became of its caller.
    begun = hold.state is State.ENDING
    depth = hold.depth - 1
    if depth == 0:
        hold.state = State.ENDING
    else:
        # At once, so that an owner who enters again meanwhile, while another thread releases here, counts from there.
        hold.depth = depth
    call = hold.recipe.release_script(hold, depth)
    failure: BaseException | None = None
    done = False
    try:
        # The hot path, one generator deep. What does not end it goes on below.
        done = call.script.decode((yield call))
    except GeneratorExit:
        raise
    except BaseException as error:  # noqa: BLE001 - it is raised again below, where the release is carried through
        failure = error
    if failure is not None:
        # When its validity is over there is nothing left to release.
        call.deadline = min(hold.valid_until, session.clock() + session.options.outage_timeout)
        try:
            done = yield from undoing(session.again(call, failure), _finish, session, hold, depth)
        except ServerUnavailableError:
            if depth == 0:
                raise
            # It stays held, and the server only counts along: it is told of the new depth in the background. Were this an error,
            # a caller that goes on could not know how many releases are still to come.
            done = True
    if depth == 0 and call.unknown:
        retire_number(hold)  # an earlier try may still be under way
    if not done and not (begun or call.unknown or hold.unsettled):
        _drop(session, hold)
        raise lost(hold)
    _note(session, hold, depth)


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
        _drop(session, hold)
        raise lost(hold)
    hold.extend_validity(sent_at, lease)
    session.watchdog.watch(hold)


def _finish(session: Session, hold: Hold, depth: int, error: BaseException) -> Op[None]:
    """Carry a release through that ended by *error*; the hold is not renewed meanwhile."""
    hold.unsettled = True
    if depth == 0:
        retire_number(hold)
    call = hold.recipe.release_script(hold, depth)
    if isinstance(error, InterlockError):
        yield from Settle(call, hold.valid_until)
    else:
        yield from session.settle(call, hold.valid_until)
        _note(session, hold, depth)


def _note(session: Session, hold: Hold, depth: int) -> None:
    hold.unsettled = False
    if depth == 0:
        hold.depth = 0
        session.holds.end(hold)


def _bury(session: Session, hold: Hold) -> Op[None]:
    """Forget a lost hold; should the server still have it, that ends too."""
    replaced = hold not in session.holds
    session.lose(hold, hold.expiry_reason())
    session.holds.end(hold)
    # A hold that its owner has acquired anew meanwhile may stand under the same field: it is not ours to end.
    if hold.reason != "force-released" and not replaced:
        retire_number(hold)
        yield from Settle(hold.recipe.release_script(hold, 0), session.clock() + GRACE)


def retire_number(hold: Hold) -> None:
    """See to it that a release which may arrive late does not meet a later hold under the same field."""
    if (owner := hold.owner()) is not None:
        owner.renumber()


def _drop(session: Session, hold: Hold) -> None:
    """Note that the server does not know *hold* any more."""
    session.lose(hold, "force-released")
    session.holds.end(hold)


def not_held(kind: str, name: str, who: str) -> NotHeldError:
    """Return the error for *who* does not hold what it wants to end."""
    return NotHeldError(
        f"{kind} {name!r} is not held by {who}; nothing was changed", name=name, owner=who
    )


def lost(hold: Hold) -> HoldLostError:
    """Return the error for the holder of what is lost."""
    reason = hold.reason or "expired"
    return HoldLostError(
        f"{hold.recipe.kind} {hold.name!r} was lost ({reason}) before {hold.label} released it",
        name=hold.name,
        reason=reason,
    )
