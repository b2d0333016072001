"""The red lock: a majority of locks on independent servers, asked all at once.

    a try       succeeds if a majority grants it, and as many grants are still valid then. Validity
                counts from before the first command is sent, less the drift of clocks
    a server    has far less time to answer than the lease, so that one that is down costs little; if
                enough others have granted it, it has a moment more. What it grants later is garbage
    in vain     all is given back, also where no answer came
    a waiter    hears the releases of the first member. Most likely a holder of the red lock has that
                one. Not certainly: so the oldest of a client looks soon anyway. Who had the first
                member, and no majority, lets a rival that waits for that one go first

Rules:

* If a server lost its data in a restart, the hold does not count there any more. Writing the lock
  there anew could give it to two holders.

Source: RedissonRedLock, Redisson 4.7.0; "Distributed Locks with Redis" (redis.io).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.locks.composite import PAST, Composite
from interlock._core.model.effects import GRACE, NEVER, Op, Wait
from interlock._core.queue.places import news_for
from interlock.errors import InterlockError, QuorumError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.locks.base import Lock
    from interlock._core.locks.composite import CompositeHold
    from interlock._core.queue.places import Line

SHARE = 50
"""The time for a server to answer is the lease divided by this."""
LEAST_PATIENCE, MOST_PATIENCE = 0.05, 0.5
"""The bounds of that time, in seconds."""
POLL = 0.25
"""Seconds after which the oldest waiter of a client looks again without a message."""
LONGEST_PAUSE = 0.1
"""The longest pause, in seconds, of owners that blocked each other."""


class RedLock(Composite):
    """A lock that is held if a majority of its members is held."""

    kind = "red lock"

    def __init__(self, members: Sequence[Lock]) -> None:
        super().__init__(members, len(members) // 2 + 1)
        # A hold that waits stands in the line of the first member, and never in the server's queue.
        self.standing = self.members[0].standing

    def weakness(self) -> str | None:
        """Return what its user had better know of its members, if anything."""
        n = len(self.members)
        servers = {member.session.outside.where for member in self.members}
        if n < 3 or n % 2 == 0:  # noqa: PLR2004 - three is the least that survives a failure
            less = f", as one over {n - 1} does" if n > 1 else ""
            return (
                f"a red lock over {n} members survives the loss of {self.spare}{less}: "
                "take an odd number of servers, 3 at least"
            )
        if len(servers) < n:
            return (
                f"{n} members on {len(servers)} servers: a server that fails takes several with it"
            )
        return None

    def patience(self, lease: float | None = None) -> float:
        shortest = min(member.session.options.lease for member in self.members)
        return min(max((lease or shortest) / SHARE, LEAST_PATIENCE), MOST_PATIENCE)

    def unavailable(self, failures: dict[str, InterlockError]) -> QuorumError:
        return QuorumError(
            f"{self.kind} {self.name!r} needs "
            f"{self.needed} of {len(self.members)} servers; not available: "
            + "; ".join(f"{where}: {error}" for where, error in failures.items()),
            causes=failures,
        )

    def obtain(self, hold: CompositeHold, deadline: float, failure: Exception | None) -> Op[bool]:
        del failure
        clock, give_up = self.session.clock, NEVER
        # Time for another try if connections were dead.
        at_least = clock() + GRACE
        while True:
            outcomes = yield from self.ask_all(hold)
            if self.keep(hold):
                return True
            hold.give_back()
            failures = self.failures(outcomes)
            lasting = sum(not getattr(each, "transient", False) for each in failures.values())
            if len(failures) <= self.spare:
                give_up = NEVER
            elif lasting > self.spare:
                give_up = PAST
            else:
                outage = clock() + self.session.options.outage_timeout
                give_up = min(give_up, max(deadline, at_least), outage)
            until = give_up if give_up < NEVER else deadline
            if clock() < until:
                if False in outcomes and outcomes[0] is not True:
                    yield from self._hear(hold, until)
                else:
                    pause = LONGEST_PAUSE * (0.1 + 0.9 * self.session.random())
                    yield from Wait(None, min(until, clock() + pause))
            if clock() >= until:
                if give_up < NEVER:
                    raise self.unavailable(failures)
                return False

    def line(self, client: Any, _: Lock) -> Line:  # type: ignore[override]
        """Return a line of the first member, at which others may wait for that one."""
        return self.members[0].line(client, self.members[0])

    def _hear(self, hold: CompositeHold, until: float) -> Op[None]:
        """Wait until somebody who waits where *hold* does is to look, and that one is the oldest."""
        hold.packed = hold.packed or self.session.new_id(hold.lease)  # by what it is found there
        place = self.session.queues.stand(hold)
        place.sent = self.session.clock()
        place.line.look_in(POLL)
        _ = yield from news_for(hold, until)
