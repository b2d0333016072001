"""Several plain locks of one client, taken by one script and freed by one script.

Theory. A multi lock takes its members one after the other. If all of them are free, and on one
server, that costs a round trip for each. So it first tries to take all at once. The script takes
all or none. Each member has a hold of its own, as if it had been taken alone. So all that happens
to it later is the same: it is renewed, extended, lost and undone alone.

The members are also freed at once, but for those that others wait for. Each of these goes to its
first waiter, so it is released alone.

Rules:

* It is done only if no member is held by the owner already, nobody of this client waits for one,
  and replicas are not asked. In a cluster each key needs a script of its own.
* If one member is not free, nothing was taken. Then the members are taken one after the other.
* If no reply to the script comes, each member is undone like a try of its own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.locks.composite import (
    CompositeHold,
    CompositeLock,
    MemberSteps,
    ReleaseMembers,
    lockstep,
)
from interlock._core.locks.lock import Lock
from interlock._core.locks.lock_base import LockBase, Release, undo_acquire
from interlock._core.model.effects import NEVER, Opened, Step, failing
from interlock._core.model.holds import ENDED, LOST, Hold
from interlock._core.model.names import shares_channels, waiting_queue
from interlock._core.scripts.lock import lock_renew, locks_acquire, locks_release
from interlock._core.scripts.script import Grant, ReplyShapeError
from interlock.errors import InterlockError, ServerUnavailableError, WrongTypeError
from interlock.options import check_lease

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.holds import Owner


LAST = (0, True)
"""What `Hold.begin_release` tells of a release to depth 0 that was not begun before."""
FREED, LEFT_ALONE = 1, 2
"""The answers for a lock that was freed, and for one that others wait for."""


class Together:
    """What *members* have in common, and the scripts for all of them."""

    def __init__(self, members: Sequence[Lock]) -> None:
        self.members: Sequence[LockBase] = members
        self.session = members[0].session
        self._keys = [member.key for member in members]
        self._queues = [waiting_queue(member.channel) for member in members]
        self._channels = [member.channel for member in members]
        self._acquire: tuple[str, float, Eval[Grant | float]] | None = None
        self._release: tuple[str, str, Eval[list[int]]] | None = None

    @property
    def usable(self) -> bool:
        """Return whether the scripts may be used for a client that is connected as now."""
        session = self.session
        return session.replicas is None and session.has_queues

    def awaited(self) -> bool:
        """Return whether this client waits for one of them, or has a place in its queue."""
        waiters = self.session.waiters
        queues, places = waiters.queues, waiters.places
        if not queues and not places:
            return False
        return any(each.line in queues or each.line in places for each in self.members)

    def acquire_script(self, holder: str, lease: float, deadline: float) -> Eval[Grant | float]:
        """Return the script that takes all; the one without a deadline is kept for *holder*."""
        kept = self._acquire
        if kept is not None and kept[0] == holder and kept[1] == lease and deadline == NEVER:
            return kept[2]
        call = locks_acquire(self._keys, lease, holder, deadline=deadline)
        call.patient = True
        if deadline == NEVER:
            self._acquire = holder, lease, call
        return call

    def release_script(self, holder: str) -> Eval[list[int]]:
        """Return the script that frees all, which is kept for *holder*."""
        kept, publish = self._release, self.session.publish
        if kept is not None and kept[0] == holder and kept[1] == publish:
            return kept[2]
        call = locks_release(self._keys, self._queues, holder, publish, self._channels)
        self._release = holder, publish, call
        return call


def together(members: Sequence[LockBase]) -> Together | None:
    """Return what takes *members* by one script; None if they need one each."""
    session = members[0].session
    plain = [
        member
        for member in members
        if type(member) is Lock and member.session is session and not shares_channels(member.key)
    ]
    return None if session.clustered or len(plain) < len(members) else Together(plain)


class AcquireTogether(Opened["CompositeHold | None"]):
    """An acquire of *lock*, whose members are taken by *way*; as `CompositeLock.acquire`."""

    __slots__ = (
        "_deadline", "_holds", "_lease", "_lock", "_member_steps", "_owner", "_refused",
        "_sent_at", "_way", "result",
    )  # fmt: skip

    def __init__(
        self,
        lock: CompositeLock,
        way: Together,
        owner: Owner,
        deadline: float,
        lease: float | None,
    ) -> None:
        self._lock = lock
        self._way = way
        self._owner = owner
        self._deadline = deadline
        self._lease = lease
        self._member_steps: MemberSteps | None = None
        self._holds: list[Hold] = []
        self._sent_at = 0.0
        self._refused = self.begun = self.goes_on = False
        self.result: CompositeHold | None = None

    def begin(self) -> Eval[Grant | float] | None:
        """Reserve a hold of each member; return the script, unless they are taken one by one."""
        way, owner = self._way, self._owner
        session = way.session
        members = way.members
        self.begun = True
        if not way.usable or way.awaited():
            return None
        number, holds, lease = owner.number, self._holds, self._lease
        holder = session.holder(owner)
        for member in members:
            if lease is None:
                hold = Hold(member, owner, holder, session.options.lease, lock_renew)
            else:
                hold = Hold(member, owner, holder, check_lease(lease))
            holds.append(hold)  # first: what is in the table must be found here
            if session.holds.reserve(hold) is not hold:
                # The owner holds it already, or another thread of the same owner was faster.
                hold.end()
                self._give_up()
                return None
        if owner.number != number:
            self._give_up()  # as for `LockBase.name_anew`
            return None
        clock = session.clock  # bound first: else Python 3.11 looks for a method
        now = self._sent_at = clock()
        deadline = self._deadline
        if deadline != NEVER:
            deadline = members[0].answer_by(deadline, now)
        return way.acquire_script(holder, holds[0].lease, deadline)

    def _give_up(self) -> None:
        """Note that nothing was sent for the holds, or that nothing was taken."""
        holds = self._way.session.holds
        for hold in self._holds:
            if hold.unanswered:
                hold.uncount_try()
            holds.end(hold)

    def done(self, answer: Grant | float) -> bool:
        """Take the server's answer; return whether all are held now."""
        if type(answer) is not Grant:
            self._give_up()
            self._refused = True
            return False
        held = True
        for hold, member in zip(self._holds, self._way.members, strict=True):
            held &= member.accept(hold, self._sent_at, answer)
        if not held:
            return False
        self.result = CompositeHold(self._lock, self._holds)
        return True

    def go_on(self, failure: InterlockError | None) -> Op[CompositeHold | None]:
        """Take the members one after the other."""
        session = self._way.session
        for hold in self._holds:
            if failure is not None and hold.unanswered:
                hold.failed(failure)
        if isinstance(failure, WrongTypeError):
            failure = None  # a member that is asked alone tells of its own key
        now, deadline = session.clock(), self._deadline
        useless = failure is not None and not (
            isinstance(failure, ServerUnavailableError) and failure.transient
        )
        # A single try has time for a second one, in case its connection is stale. The first one may
        # have taken members, which are given back before.
        once_more = deadline <= now < LockBase.answer_by(deadline, self._sent_at) and not useless
        yield from self._undo(None if once_more else failure)
        over = session.clock() >= deadline
        if self._refused and over:
            return None
        if failure is not None and (useless or (over and failure.sent and not once_more)):
            raise failure
        member_steps = self._member_steps = MemberSteps()
        return (
            yield from self._lock.acquire_in_turn(
                self._owner, self._deadline, self._lease, member_steps
            )
        )

    def settled(self) -> bool:
        """Return whether no member is held, and none can be."""
        none_left = all(hold.settled() for hold in self._holds)
        return none_left and (self._member_steps is None or self._member_steps.over())

    def undo(self, failure: BaseException) -> Op[None]:
        """Give back what was taken."""
        yield from self._undo(failure)
        if self._member_steps is not None:
            yield from self._member_steps.settle(failure)

    def _undo(self, failure: BaseException | None) -> Op[None]:
        session = self._way.session
        left = [hold for hold in self._holds if not hold.settled()]
        undone = [(session, undo_acquire(session, hold, failure)) for hold in left]
        _ = yield from lockstep(undone, interruption=failure)

    def abandon(self) -> None:
        """Remove the holds that are still PENDING."""
        for hold in self._holds:
            self._way.session.holds.unreserve(hold)


class ReleaseTogether(ReleaseMembers):
    """A release of *lock*, whose members were taken by *way*; else as `ReleaseMembers`."""

    __slots__ = ("_answers", "_begun", "_holds", "_way")

    def __init__(self, lock: CompositeLock, way: Together, hold: CompositeHold) -> None:
        # `super().__init__` inlined: a call more takes 2 % of the instructions of a pair.
        self._lock = lock
        self._hold = hold
        self._member_steps: MemberSteps | None = None
        self._refused = False
        self._way = way
        # The members' holds, if one script frees them, and what `Hold.begin_release` told of each.
        self._holds: Sequence[Hold] = ()
        self._begun: list[tuple[int, bool]] = []
        self._answers: Sequence[int] = ()

    def begin(self) -> Eval[list[int]] | None:
        """Begin to release each member; return the script, unless they are released one by one."""
        way, holds = self._way, self._hold.members
        if len(holds) != len(way.members) or not way.usable or way.awaited():
            return None
        clock = way.session.clock
        holder, now = holds[0].holder, clock()
        # Nobody waits for an answer beyond the lease.
        until = now + way.session.options.command_timeout
        for each in holds:
            if each.depth != 1 or each.holder != holder or each.unanswered or not each.valid(until):
                return None
        self._holds, begun = holds, self._begun
        for each in holds:
            found = each.begin_release(now)
            if found is None:
                return None
            begun.append(found)
            if found != LAST:
                return None  # another thread of the same owner has entered or left it meanwhile
        return way.release_script(holder)

    def done(self, answer: list[int]) -> bool:
        """Take the server's answer; return whether all were released."""
        if len(answer) != len(self._holds):
            raise ReplyShapeError(f"expected {len(self._holds)} numbers, got {answer!r}")
        self._answers = answer
        for one in answer:
            if one != FREED:
                return False
        holds = self._way.session.holds
        for hold in self._holds:
            holds.released(hold)
        return True

    def begun(self) -> bool:
        return bool(self._holds) or super().begun()

    def carry_on(self, failure: BaseException | None) -> Op[None]:
        """Release the members one by one, or complete what *failure* has interrupted."""
        if self._holds and self._member_steps is None:
            return self._one_by_one(failure)
        return super().carry_on(failure)

    def over(self) -> bool:
        holds = self._holds
        if holds and self._member_steps is None:
            return all(hold.state is ENDED or hold.state is LOST for hold in holds)
        return super().over()

    def _one_by_one(self, failure: BaseException | None) -> Op[None]:
        """Go on with the release of each member, from where this step came to.

        The script was answered, not sent, or it ended with *failure*.
        """
        session, holds, begun = self._way.session, self._holds, self._begun
        releases = [Release().of(session, hold) for hold in holds]
        member_steps = MemberSteps()
        member_steps.add(*((one.core, step) for one, step in zip(holds, releases, strict=True)))
        calls = [one.resume(*told) for one, told in zip(releases, begun, strict=False)]
        self._member_steps = member_steps
        if failure is not None and not isinstance(failure, InterlockError):
            return failing(failure, member_steps.settle(failure))
        answers = self._answers or [LEFT_ALONE] * len(calls)
        steps: list[Op[None] | Step[None]] = [
            _go_on(one, call, answer, failure)
            for one, call, answer in zip(releases, calls, answers, strict=False)
        ]
        return self._judged([*steps, *releases[len(calls) :]], member_steps)

    def _judged(
        self, steps: Sequence[Op[None] | Step[None]], member_steps: MemberSteps
    ) -> Op[None]:
        """Perform *steps*, one for each member, and judge what they came to."""
        session, hold = self._way.session, self._hold
        outcomes = yield from lockstep([(session, step) for step in steps])
        yield from self._lock.judge_release(hold, hold.members, outcomes, member_steps)


def _go_on(step: Release, call: Eval[int], answer: int, failure: InterlockError | None) -> Op[None]:
    """Go on with *step*, whose own script is *call*, after the *answer* or *failure* for all."""
    if failure is not None and failure.sent:
        yield from step.performed(failure=failure)
    elif failure is not None or answer == LEFT_ALONE:
        yield from step.performed(call)
    elif not step.done(answer):
        yield from step.performed()
