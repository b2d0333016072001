"""The red lock: a majority of locks on independent servers, asked all at once.

    a try       succeeds if a majority grants it, and as many grants are still valid then. Validity
                counts from before the first command is sent, less the drift of clocks
    a server    has far less time to answer than the lease, so that one that is down costs little; if
                enough others have granted it, it has a moment more. What it grants later is garbage
    in vain     all is given back, also where no answer came
    a waiter    hears the releases of the first member that it found taken, of another one when that
                is free. Most likely a holder of the red lock has that one. Not certainly: so the
                oldest of a client looks soon anyway

Rules:

* If a server lost its data in a restart, the hold does not count there any more. Writing the lock
  there anew could give it to two holders.

Source: RedissonRedLock, Redisson 4.7.0; "Distributed Locks with Redis" (redis.io).
"""

from __future__ import annotations

import inspect
import warnings
from typing import TYPE_CHECKING

from interlock._core.locks.composite import Composite
from interlock._core.model.effects import NEVER, Listen, Op, Wait, run_on
from interlock._core.model.hold import Hold
from interlock.errors import InterlockError, QuorumError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.locks.base import Lock
    from interlock._core.locks.composite import CompositeHold

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
        if warning := self._weakness():
            warnings.warn(warning, UserWarning, stacklevel=_level_of_user())

    def _weakness(self) -> str | None:
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

    def obtain(
        self, hold: CompositeHold, deadline: float, failure: Exception | None, *, tried: bool
    ) -> Op[bool]:
        del failure, tried
        clock, give_up = self.session.clock, NEVER
        while True:
            outcomes = yield from self.ask_all(hold, self.needed)
            if self.keep(hold):
                return True
            taken = [member for member, got in zip(self.members, outcomes, strict=True) if not got]
            hold.give_back()
            failures = self.failures(outcomes)
            if len(failures) > self.spare:
                give_up = min(give_up, deadline, clock() + self.session.options.outage_timeout)
                lasting = sum(not getattr(each, "transient", False) for each in failures.values())
                if lasting > self.spare or clock() >= give_up:
                    raise self.unavailable(failures)
            else:
                give_up = NEVER
                if clock() >= deadline:
                    return False
            until = min(deadline, give_up)
            if taken and (hold.listener is None or hold.listener.lock in taken):
                yield from self._hear(hold, taken[0], until)
            else:
                hold.stop_listening()  # where nobody may release any more
                pause = LONGEST_PAUSE * (0.1 + 0.9 * self.session.random())
                yield from Wait(None, min(until, clock() + pause))
            if clock() >= until:
                if len(failures) > self.spare:
                    raise self.unavailable(failures)
                return False

    def _hear(self, hold: CompositeHold, member: Lock, until: float) -> Op[None]:
        """Wait for a release of *member*, or of the one that *hold* has begun to hear."""
        listener = hold.listener
        if listener is None:
            session = member.session
            listener = _Listener().of(
                member, hold.owner, session.new_id(hold.lease), hold.lease, False
            )
            hold.listener = listener
        session = listener.lock.session
        return run_on(session, _heard(listener, until), self.session)


class _Listener(Hold):
    """Stands in the line of its client, and never in the server's queue."""

    __slots__ = ()


def _heard(listener: Hold, until: float) -> Op[None]:
    """Wait until somebody who waits where *listener* does is to look, and that one is the oldest."""
    place = listener.lock.session.queues.stand(listener)
    line = place.line
    if not line.ready:
        yield from Listen(line)
    line.look_in(POLL)
    if place.take() is None:
        yield from Wait(place, until)
        _ = place.take()


def _level_of_user() -> int:
    """Return the stack level of the first caller outside this package; a warning points at it."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("interlock."):
        frame, level = frame.f_back, level + 1
    return level
