"""What condition and barrier share: each waiter is a hold that the client renews.

A sorted set has the end of each waiter's lease. If a process dies, its leases end. The next look of
another process finds that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.locks.lock_base import Holdable, undo_acquire
from interlock._core.model import names
from interlock._core.model.effects import RunOn, Undoable
from interlock._core.scripts.condition import waiting_renew
from interlock._core.upkeep.idempotency import IdempotentCalls
from interlock.options import check_name

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Op, R, Step
    from interlock._core.model.holds import Hold, Renewal
    from interlock._core.upkeep.session import Session

MOST = 1_000_000
"""The largest number of waiters or parties in one call."""
KEPT = 3600.0
"""Seconds that an idle condition or barrier is kept, besides a lease and two poll caps."""


class LeasedWaiters(Holdable):
    """The common part of condition and barrier, for one client.

    Args:
        session: the client's state.
        name: what the user calls it.
        leases: returns the key of the sorted set with the ends of leases.
    """

    kind: str
    renewal: Renewal = staticmethod(waiting_renew)
    looked_at = None

    def __init__(self, session: Session, name: str, leases: Callable[[str], str]) -> None:
        self.name = check_name(name)
        self.session = session
        self._base = session.key(self.name)
        self.key = leases(self._base)
        self.hold_key: object = self.key
        self._lease = session.options.lease
        self._calls = IdempotentCalls(session, self._base, names.own_request)
        self._kept = KEPT + 2 * session.options.poll_cap + self._lease

    def _waiting(
        self, op: Op[R], last: list[Hold], parts: Sequence[Step[object]] = ()
    ) -> Undoable[R]:
        """Return a wait as a step; *op* puts its waiter into *last*, and its *parts* are steps.

        A second Ctrl-C leaves no waiter behind, and no part half done.
        """
        return Undoable(
            op,
            lambda: all(waiter.settled() for waiter in last) and all(part.over() for part in parts),
            lambda error: self._leave(last, parts, error),
        )

    def _leave(
        self, last: list[Hold], parts: Sequence[Step[object]], error: BaseException
    ) -> Op[None]:
        for waiter in last:
            yield from undo_acquire(self.session, waiter, error)
        for part in parts:
            if not part.over():
                yield from RunOn(self.session, part.rest(error))
