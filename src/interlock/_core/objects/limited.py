"""A leased semaphore whose number of permits is written in the code of its users.

Theory. Each client sets the number before its first acquire, and again when its code asks for
another number. So a new version of a program changes the number when it starts. The last one to
start wins, and says so. A client that has set a number leaves it alone from then on, so another
program may change it at run time.

A refusal that names no end of a lease means that nobody holds a permit. Then the server has lost
the number, or never had it, and the client sets it once more.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER
from interlock._core.objects.leased_semaphore import LeasedSemaphore
from interlock._core.objects.semaphore import check_permits
from interlock._core.scripts import leased_semaphore as scripts
from interlock._core.upkeep.idempotency import once

if TYPE_CHECKING:
    from interlock._core.model.effects import Op
    from interlock._core.objects.lifetime import Kept
    from interlock._core.objects.limits import Limits
    from interlock._core.upkeep.session import Session


class LimitedSemaphore(LeasedSemaphore):
    """A leased semaphore that has *limit* permits before a client takes the first one."""

    def __init__(
        self, session: Session, name: str, limit: int, limits: Limits, kept: Kept | None = None
    ) -> None:
        super().__init__(session, name, limit, limits, kept)
        self.limit = limit

    def set_permits(self, permits: int) -> Op[None]:
        """Set the number at run time, as a leased semaphore does; at least 1.

        This client leaves it alone from then on. A number of 0 would look like a lost one.
        """
        return super().set_permits(check_permits(permits))

    def _set_number(self, deadline: float) -> Op[bool]:
        """Set the number that the code names, unless there is the same; tell if there was another.

        Return whether it was set.

        Cost:
            One round trip, and two more if the number is another one.
        """
        return self._set_limit(deadline, lost=False)

    def restore(self, remaining: float, wanted: int, deadline: float) -> Op[bool]:
        """Set the number if the server has lost it; return whether it was set."""
        del wanted
        restored = remaining == NEVER and (yield from self._set_limit(deadline, lost=True))
        if restored:
            _ = yield from self._extend(deadline)
        return restored

    def _set_limit(self, deadline: float, *, lost: bool) -> Op[bool]:
        """Set the number unless it is right; return whether it was set.

        Args:
            deadline: as for a try.
            lost: change nothing unless the server has no permits at all.
        """
        session, publish = self.session, self.session.publish
        before = yield from self._total(deadline)
        wrong = before == 0 if lost else before != self.limit
        if wrong:
            call = scripts.leased_semaphore_set(
                self.key, self.limit, publish, self.channel, deadline=deadline
            )
            call.patient = True
            _ = yield from session.persist(once(session, self.key, call))
            if before:
                self._limits.differs(self.name, before, self.limit)
        self._limits.note(self.key, self.limit)
        return wrong
