"""The red lock: a quorum of locks on independent servers, asked all at once.

Theory. A try succeeds if n // 2 + 1 servers grant it, and as many grants are still valid when the
last reply is in. Validity counts from before the first command is sent, minus the drift of clocks.
Each server has far less time to answer than the lease. So a server that is down costs no more than
that time. A failed try gives the lock back everywhere, even if a server did not reply.

Once enough servers have granted it, the others are waited for only a little (`composite.LINGER`).
A member whose reply comes later is undone like one whose reply was lost.

A waiter queues up on the channel of the first member that it finds taken. Most likely a holder of
the red lock has that member. This is not certain, so the waiter looks again soon in any case.
Waiters that fail together must not collide again, and their own releases must not wake them at
once. So a waiter that finds that member free, but no quorum, first pauses for a random time.

Rules:

* If a server lost its data in a restart, the hold does not count there any more. Writing the lock
  there anew could give it to two holders.
* A re-entry, or a query of the depth, needs the replies of a quorum. For each server that does not
  reply, the local validity of its hold counts.

Source: RedissonRedLock, Redisson 4.7.0; "Distributed Locks with Redis" (redis.io).
"""

from __future__ import annotations

import inspect
import warnings
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from interlock._core.locks.composite import CompositeHold, CompositeLock, lockstep
from interlock._core.model.effects import NEVER, PAST, RunOn
from interlock._core.model.holds import HELD, Hold
from interlock._core.queue.lines import section
from interlock._core.queue.waiting import wait_in_queue
from interlock.errors import (
    HoldLostError,
    InterlockError,
    QuorumError,
    ServerUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.locks.composite import AcquireRequest
    from interlock._core.locks.lock_base import LockBase
    from interlock._core.model.effects import Op
    from interlock._core.queue.lines import Line

SHARE = 50
"""The time for a server to answer is the lease divided by this."""
LEAST_PATIENCE, MOST_PATIENCE = 0.05, 0.5
"""The bounds of that time, in seconds."""
POLL = 0.25
"""Seconds after which a waiter looks again without a message."""


@dataclass(slots=True)
class _Contest:
    """The state of one acquire.

    Attributes:
        request: what is wanted.
        hold: what was acquired, or None.
        waits_at: the member on whose channel the waiter hears of releases.
        give_up: when to stop trying while too few servers are available.
        failures: the errors of the last try, if too few servers were available.
    """

    request: AcquireRequest
    hold: CompositeHold | None = None
    waits_at: LockBase | None = None
    give_up: float = NEVER
    failures: dict[str, InterlockError] = field(default_factory=dict[str, InterlockError])


class RedLock(CompositeLock):
    """A lock that is held if a majority of its members is held."""

    kind = "red lock"

    def __init__(self, members: Sequence[LockBase]) -> None:
        super().__init__(members, len(members) // 2 + 1)
        if warning := self._weakness():
            warnings.warn(warning, UserWarning, stacklevel=_level_of_user())

    def _weakness(self) -> str | None:
        n = len(self.members)
        servers = {member.session.where for member in self.members}
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

    def _obtain(self, request: AcquireRequest) -> Op[CompositeHold | None]:
        """Acquire as `acquire` does.

        Cost:
            One round trip to all servers at once; while waiting, one per message and per `POLL`
            for the whole process.
        """
        if request.hold is not None and request.hold.state is HELD:
            return (yield from self._reenter(request, request.hold))
        contest = _Contest(request)
        contest.waits_at = next(
            (m for m in self.members if m.session.waiters.has_waiters(_line(m))), None
        )
        # A newcomer queues behind those who wait here, except for a single try.
        if contest.waits_at is None or request.deadline <= self._session.clock():
            _ = yield from self._attempt(contest)
        if contest.hold is None and self._session.clock() < request.deadline:
            member = contest.waits_at = contest.waits_at or self.members[0]
            waiting = wait_in_queue(
                member.session, _line(member), request.deadline, POLL, self._attempt, contest
            )
            _ = yield from RunOn(member.session, waiting)
        if contest.hold is None and contest.failures:
            # The time ran out between two tries.
            raise self._unavailable(contest.failures)
        return contest.hold

    def _attempt(self, contest: _Contest) -> Op[float | None]:
        """Ask every server once.

        Return None if a quorum is held, else the seconds after which to ask again.
        """
        clock, request = self._session.clock, contest.request
        outcomes = yield from self._enter(request, self.members, self.needed)
        held = [outcome for outcome in outcomes if isinstance(outcome, Hold)]
        now = clock()
        if sum(hold.valid(now) for hold in held) >= self.needed:
            contest.hold = CompositeHold(self, held)
            return None
        yield from self._give_back(request)
        self._judge(self._failures(outcomes), contest)
        busy = [m for m, o in zip(self.members, outcomes, strict=True) if o is None]
        if contest.waits_at is None and busy:
            contest.waits_at = busy[0]
        if contest.waits_at in busy:
            return POLL
        if clock() < request.deadline:
            yield from self._pause(request.deadline)
        return 0.0

    def _enter(
        self, request: AcquireRequest, members: Sequence[LockBase], enough: int | None = None
    ) -> Op[Sequence[Hold | InterlockError | None]]:
        """Try each of *members* once; *enough* as for `lockstep`."""
        tries = [(member.session, request.enter(member, PAST)) for member in members]
        return lockstep(tries, self._patience(request.lease), enough=enough)

    def _judge(self, failures: dict[str, InterlockError], contest: _Contest) -> None:
        """Raise QuorumError if too many servers fail for good, or for too long."""
        now = self._session.clock()
        if len(failures) <= self.spare:
            contest.give_up, contest.failures = NEVER, {}
            return
        contest.failures = failures
        lasting = sum(not getattr(error, "transient", False) for error in failures.values())
        patience = now + self._session.options.outage_timeout
        contest.give_up = min(contest.give_up, contest.request.deadline, patience)
        if lasting > self.spare or now >= contest.give_up:
            raise self._unavailable(failures)

    def _reenter(self, request: AcquireRequest, hold: CompositeHold) -> Op[CompositeHold]:
        owner = request.owner
        holding = [
            member for member, depth in zip(self.members, request.former, strict=True) if depth
        ]
        outcomes = yield from self._enter(request, holding)
        if sum(isinstance(outcome, Hold) for outcome in outcomes) < self.needed:
            for outcome in outcomes:
                if isinstance(outcome, HoldLostError):
                    raise self._lost(hold, outcome) from outcome
            raise self._unavailable(self._failures(outcomes, holding))
        for member, outcome in zip(holding, outcomes, strict=True):
            one = member.hold_of(owner)
            if isinstance(outcome, ServerUnavailableError) and one and one.state is HELD:
                # Commands name absolute depths. A later one tells that server of this entry, if
                # one comes.
                _ = one.enter()
        return hold

    def _patience(self, lease: float | None = None) -> float:
        shortest = min(member.session.options.lease for member in self.members)
        return min(max((lease or shortest) / SHARE, LEAST_PATIENCE), MOST_PATIENCE)

    def _unavailable(self, failures: dict[str, InterlockError]) -> QuorumError:
        return QuorumError(
            f"{self.kind} {self.name!r} needs "
            f"{self.needed} of {len(self.members)} servers; not available: "
            + "; ".join(f"{where}: {error}" for where, error in failures.items()),
            causes=failures,
        )


def _level_of_user() -> int:
    """Return the stack level of the first caller outside this package; a warning points at it."""
    frame, level = inspect.currentframe(), 0
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("interlock."):
        frame, level = frame.f_back, level + 1
    return level


def _line(member: LockBase) -> Line:
    """Return the line in which red locks wait for *member*.

    Waiters for *member* alone use another line: they may have to wait while a quorum is free.
    """
    return section(member.line, "red lock")
