"""The multi lock: all members or none.

Theory. If all members are free, and on one server, one script takes them (`together`). Otherwise
members are taken one after the other in one canonical order. So two multi locks that share
members cannot wait for each other in a ring. A multi lock holds nothing while it waits for its
first member, so that wait may be long. Other programs may take the same locks in another order:
Redisson takes them in the order of the call. So after the first member each try has a time budget,
which is drawn at random. When the budget is used up, all members are given back, and a random pause
follows. If two multi locks block each other, one gives way first, and the other goes on.

In Redisson, the budget counts from the beginning, and members have a temporary lease until all are
taken. Other clients cannot see either difference.

Source: RedissonMultiLock, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.locks.composite import CompositeHold, CompositeLock
from interlock._core.locks.together import AcquireTogether, ReleaseTogether, together
from interlock._core.model.effects import RunOn
from interlock.errors import HoldLostError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.locks.composite import AcquireRequest
    from interlock._core.locks.lock_base import LockBase
    from interlock._core.model.effects import Op, Step
    from interlock._core.model.holds import Hold, Owner
    from interlock.errors import InterlockError

MEMBER_BUDGET = 1.5
"""Seconds that each member adds to the time budget of a try."""


class MultiLock(CompositeLock):
    """All of several locks as one."""

    kind = "multi lock"

    def __init__(self, members: Sequence[LockBase]) -> None:
        super().__init__(members, len(members))
        self._way = together(self.members)

    def acquire(
        self, owner: Owner, deadline: float, lease: float | None
    ) -> Step[CompositeHold | None]:
        """Acquire as `CompositeLock.acquire` does, by one script if all members are free.

        Cost:
            One round trip if one script may take all members (`together`). Else one for each, and
            with a *lease* one more to all at once.
        """
        way = self._way
        if way is None:
            return super().acquire(owner, deadline, lease)
        self.refuse_vain_wait(owner, deadline)
        return AcquireTogether(self, way, owner, deadline, lease)

    def release_hold(self, hold: CompositeHold) -> Step[None]:
        """Go down by one depth in every member of *hold*, as `CompositeLock.release_hold` does."""
        way = self._way
        return super().release_hold(hold) if way is None else ReleaseTogether(self, way, hold)

    def _obtain(self, request: AcquireRequest) -> Op[CompositeHold | None]:
        """Acquire as `acquire` does, one member after the other."""
        clock, outage = self._session.clock, self._session.options.outage_timeout
        give_up = request.deadline
        while True:
            failure: ServerUnavailableError | None = None
            try:
                hold = yield from self._collect(request, give_up)
                if hold is not None:
                    return hold
            except ServerUnavailableError as error:
                # If no member is taken, the first member's try has already waited for the end of
                # the outage. Members that are taken were held no longer than the budget.
                if not error.transient or not self._taken(request):
                    raise
                failure = error
            yield from self._give_back(request)
            give_up = request.deadline if failure is None else min(give_up, clock() + outage)
            if clock() >= give_up:
                if failure is not None:
                    raise failure
                return None
            yield from self._pause(give_up)

    def _collect(self, request: AcquireRequest, deadline: float) -> Op[CompositeHold | None]:
        clock, lease, until = self._session.clock, request.lease, deadline
        budget = MEMBER_BUDGET * len(self.members) * (0.75 + self._session.random() / 2)
        if lease is not None:
            # Else the first hold could end before the last member is taken.
            budget = min(budget, lease)
        held: list[Hold] = []
        for member in self.members:
            taken = yield from RunOn(member.session, iter(request.enter(member, until)))
            if taken is None:
                return None
            held.append(taken)
            if member is self.members[0]:
                until = min(deadline, clock() + budget)
        hold = CompositeHold(self, held)
        if lease is not None and len(self.members) > 1:
            # The first members have used up some of their lease while the last was waited for.
            failure = yield from self._extend_members(hold, lease)
            if isinstance(failure, HoldLostError):
                return None
            if failure is not None:
                raise failure
        return hold if hold.valid(clock()) else None

    def _patience(self, lease: float | None = None) -> None:
        del lease

    def _unavailable(self, failures: dict[str, InterlockError]) -> InterlockError:
        return next(iter(failures.values()))
