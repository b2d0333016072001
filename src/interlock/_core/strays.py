"""Tries to acquire that nobody waits for any more, and what they may do yet.

Theory. A try whose reply does not come is given up and sent again, by another connection. It may be executed all the same: at once,
when the server wakes up, or when the network lets go of it, long after what the next try got was released. Then it makes somebody
the holder who knows nothing of it. So a hold counts such *strays*, and whatever ends it has the background release it again and
again until as many were found, or its lease would have ended it (`settling`).

Rules:

* What is released late must not meet a later hold: its owner has another number by then.
* Only what may take a lock counts. Re-entries, renewals and releases that come late change nothing, for they ask for an absolute depth
  of a holder who is gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock.errors import ClosedError, InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from interlock._core.effects import Op
    from interlock._core.holds import Hold, Owner
    from interlock._core.session import Session


def undo_acquire(
    session: Session, hold: Hold, owner: Owner | None, error: BaseException | None
) -> Op[None]:
    """Leave nothing behind of an acquire that ended by *error*, or in vain (None).

    Args:
        session: the client's state.
        hold: what was to be acquired.
        owner: for whom, where he may acquire it again; None when every hold has an id of its own.
        error: how it ended.
    """
    late = _at_large(hold, error)
    granted = hold.depth > 0
    if owner is not None and (late or granted):
        # Whatever we send now may arrive late: it must not meet a later hold under the same field, not even another thread's.
        owner.renumber()
    hold.depth = hold.strays = 0
    session.holds.end(hold)
    if not (late or granted):
        return
    call, until = hold.recipe.release_script(hold, 0), session.clock() + hold.lease
    yield from session.settle_after(error, call, until, late)


def _at_large(hold: Hold, error: BaseException | None) -> int:
    """Return how many commands may make *hold* the holder yet, whose acquire ended by *error*, or in vain (None)."""
    if isinstance(error, ClosedError) or not isinstance(error, InterlockError):
        open_end = hold.unsettled  # of its last try nothing is known
    elif isinstance(error, ServerUnavailableError):
        open_end = False  # that is one of the strays, if it was sent
    else:
        open_end = hold.unsettled and getattr(error, "sent", False)
    late = hold.strays + open_end + hold.offered
    # What it was granted is found besides.
    return late + (hold.depth > 0) if late else 0


def outlive(session: Session, hold: Hold) -> Op[None]:
    """See to it that tries which were given up do not make *hold*, which the server has no more, the holder when they are executed.

    Its owner must have another number since before it left the table.
    """
    if hold.strays:
        call = hold.recipe.release_script(hold, 0)
        yield from session.leave(call, session.clock() + hold.lease, hold.strays)


def reach(hold: Hold, until: float, now: float) -> tuple[float, int]:
    """Return until when, and until it found how much, a release of *hold* is to be repeated that is of use until *until* otherwise."""
    if not hold.strays:
        return until, 0
    return max(until, now + hold.lease), hold.strays + 1


def retire_number(hold: Hold) -> None:
    """See to it that a release which may arrive late does not meet a later hold under the same field."""
    if (owner := hold.owner()) is not None:
        owner.renumber()
