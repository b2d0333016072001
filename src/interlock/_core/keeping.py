"""The end of a hold whose lock must stay locked for a while: it is left to its lease.

Source: lockAtLeastFor of ShedLock.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core import releasing
from interlock._core.holds import State
from interlock._core.scripts.lock import lock_keep

if TYPE_CHECKING:
    from interlock._core.effects import Op
    from interlock._core.holds import Hold
    from interlock._core.session import Session


def keep(session: Session, hold: Hold, rest: float) -> Op[None]:
    """Hold *hold* no more, and have its lock, a plain one, end by itself in *rest* seconds.

    No other hold may ever have the same holder id.

    Raises:
        HoldLostError: it was lost before.
        ServerUnavailableError: no usable answer; the lock ends with its lease.

    Cost:
        One round trip.
    """
    now = session.clock()
    if hold.lost(now):
        session.lose(hold, hold.expiry_reason())
        session.holds.end(hold)
        raise releasing.lost(hold)
    # The watchdog renews no more: it must not undo what the script does.
    hold.state = State.ENDING
    deadline = min(hold.valid_until, now + session.options.outage_timeout)
    try:
        kept = yield from session.persist(lock_keep(hold.key, rest, hold.holder, deadline=deadline))
        if not kept:
            session.lose(hold, "force-released")
            raise releasing.lost(hold)
    finally:
        session.holds.end(hold)
