"""Holds that have ended here and may still be on the server: passive, `now` is an argument.

Whatever ends a call early puts its hold here, and wakes the upkeep, which releases it. An id is
never used again, so a release too many harms nobody. It takes the hold out of the server's queue as
well: so a waiter that gives up, and one that was granted the lock just then, are the same case.

    the tries to acquire                               is released
    -----------------------------------------------    ------------------------------------------
    all were answered                                  until one release is answered
    one was sent, and not answered                     until a release finds it, or a lease is over
    several were sent, and not all answered, or it     until a lease is over: each may still come,
    stood in the queue before the last one             and what a release finds may be the place

Nothing is released for longer than a lease, but for a place: that takes 10 s at least, because
others may keep the queue.

A release is sent at once, and again .02 .04 .08 ... s after that: at most 1 s after a failure, and a
quarter of the lease after an answer.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import NEVER
from interlock._core.scripts.replies import LOOK
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from interlock._core.model.hold import Hold
    from interlock._core.queue.places import Queues

FIRST_PAUSE, LONGEST_PAUSE = 0.02, 1.0


class _Due:
    """When to release next, how long to pause after that, and when it is useless."""

    __slots__ = ("at", "pause", "until")

    def __init__(self, now: float, until: float) -> None:
        self.at, self.pause, self.until = now, FIRST_PAUSE, until


class Garbage:
    """The garbage of one client, whose waiters stand in *queues*.

    Attributes:
        dead: each hold, and its plan once there is one. A hold is garbage from when it is in here.
    """

    def __init__(self, queues: Queues) -> None:
        self._queues = queues
        self.dead: dict[Hold, _Due | None] = {}

    def add(self, hold: Hold) -> None:
        """Make *hold* garbage, and before it what is released first; repeatable."""
        if hold.place is not None:
            for each in hold.place.before:
                self.add(each)
        self.dead[hold] = None

    def due(self, now: float) -> list[Hold]:
        """Return what to release at *now*; it is not due again before it is answered or put off."""
        found: list[Hold] = []
        for hold, known in list(self.dead.items()):
            plan = known or _Due(now, hold.over_by(now))
            if plan.at <= now:
                plan.at = NEVER
                found.append(hold)
            if hold in self.dead:  # the end of a wait may have settled it meanwhile
                self.dead[hold] = plan
        return found

    def put_off(self, hold: Hold, now: float) -> None:
        """Note that *hold* was due, and its release could not be sent."""
        plan = self.dead.get(hold)
        if plan is not None:
            plan.at = now + FIRST_PAUSE

    def next_due(self) -> float:
        """Return when something is due."""
        return min([plan.at if plan else 0.0 for plan in list(self.dead.values())], default=NEVER)

    def answered(self, hold: Hold, answer: Any, now: float) -> None:
        """Take the *answer* to a release of *hold*: what `freed` returns, or an error."""
        plan = self.dead.get(hold) or _Due(now, hold.over_by(now))
        if answer.__class__ is tuple:
            self._queues.tell(hold.lock, *answer)
            answer = None if answer[1] is LOOK else 1
        if isinstance(answer, ServerUnavailableError):
            settled = False  # what refuses it now, a missing right too, may pass
        elif isinstance(answer, Exception):
            settled = True
        elif hold.may_come():
            settled = False
        else:
            settled = answer is not None or not hold.asking
        if settled or now >= plan.until:
            self.dead.pop(hold, None)
            self._queues.forget(hold)
            return
        failed = isinstance(answer, Exception)
        plan.at = min(now + plan.pause, plan.until)
        plan.pause = min(2 * plan.pause, LONGEST_PAUSE if failed else hold.lease / 4)
        self.dead[hold] = plan
