"""What multi lock and red lock have in common: several locks that are held as one.

Theory. Members are locks of one or more clients. A composite lock has no state besides theirs. An
owner has the composite lock when it holds enough members. Each hold is renewed by its own client.
So a try finds in the members' tables what it took, even if it is interrupted between any two steps.

Rules:

* Every operation but the acquire of a multi lock runs at all members at once. A member that fails
  never stops the others.
* Up to `spare` members may be missing. If too few members replied for an answer, the result is an
  error, never a guess.
* Operations of the members run in lockstep (`lockstep`). They are generators, so they can be
  suspended: each runs to its next effect, then all scripts are sent, then each gets its reply.
* In lockstep, every operation begins before anything is sent. An interruption, too, is thrown into
  every operation before anything is sent.
* An operation that waits in a queue for messages does not run in lockstep: it would leave the queue
  between two steps.

Source: RedissonMultiLock, Redisson 4.7.0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from interlock._core.insight.events import tell_loss
from interlock._core.locks.known_lock import not_acquired, not_held
from interlock._core.locks.lock_base import Refused
from interlock._core.model.effects import (
    LATE,
    Carried,
    Eval,
    Gather,
    RunOn,
    Step,
    Undoable,
    Wait,
    ended,
    failing,
    undoing,
)
from interlock._core.model.holds import ENDED, ENDING, HELD, LOST, Hold
from interlock._core.scripts.lock import LockStatus
from interlock._core.scripts.script import Grant
from interlock._core.upkeep.session import GRACE, PROMPT
from interlock.errors import (
    ConfigError,
    HoldLostError,
    InterlockError,
    ReplicationError,
    ServerUnavailableError,
    WrongTypeError,
)
from interlock.options import check_lease

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.locks.lock_base import LockBase
    from interlock._core.model.effects import Client, Effect, Op, R
    from interlock._core.model.holds import CoreLock, Owner
    from interlock.errors import AcquireTimeoutError, LossReason

    Outcomes: TypeAlias = Sequence[InterlockError | None]

LONGEST_BACKOFF = 0.1
"""The longest pause, in seconds, between two tries of owners that blocked each other."""
LINGER = 0.01
"""Seconds for which servers may still grant a lock after enough others have."""
TRIES = 2
"""How often a script is sent to a server that fails at once.

The connection may have been a stale one.
"""
_FAILURES = (ServerUnavailableError, WrongTypeError, HoldLostError, ReplicationError)
"""Errors that concern one server, or the hold there."""


@dataclass(slots=True)
class AcquireRequest:
    """One acquire.

    Attributes:
        owner: who wants it.
        deadline: on the clock of the clients; if it has passed, there is one try.
        lease: seconds, or None for holds that are renewed.
        hold: the hold that the owner already has; None without one, or if it is lost.
        member_steps: what it does at the members.
        former: how deep the owner held each member before.
    """

    owner: Owner
    deadline: float
    lease: float | None
    hold: CompositeHold | None
    member_steps: MemberSteps
    former: list[int]

    def enter(self, member: LockBase, deadline: float) -> Step[Hold | None]:
        """Return the step that acquires *member* until *deadline*."""
        step = member.acquire(self.owner, deadline, self.lease)
        self.member_steps.add((member, step))
        return step


class MemberSteps:
    """The members' steps of one operation: the last one at each member.

    Each step knows what it still has to undo or to carry through. So an interrupted operation goes
    on with the steps that are not over. An interrupted undo does the same.
    """

    def __init__(self) -> None:
        self._steps: dict[object, tuple[Client, Step[Any]]] = {}

    def add(self, *steps: tuple[LockBase | CoreLock, Step[Any]]) -> None:
        """Note *steps*, each with its member, where it replaces an earlier one.

        None is noted if a Ctrl-C strikes.
        """
        noted: dict[object, tuple[Client, Step[Any]]] = {
            (id(member.session), member.hold_key): (member.session, step) for member, step in steps
        }
        self._steps.update(noted)

    def __bool__(self) -> bool:
        """Return whether any step was begun."""
        return bool(self._steps)

    def over(self) -> bool:
        """Return whether no step has anything left to do."""
        return all(step.over() for _, step in list(self._steps.values()))

    def settle(self, error: BaseException) -> Op[None]:
        """Undo or complete each step that *error* has interrupted, at all members at once."""
        rest = [
            (session, step.rest(error))
            for session, step in list(self._steps.values())
            if not step.over()
        ]
        _ = yield from lockstep(rest, interruption=error)


class ReleaseMembers(Carried[None]):
    """A release of *lock*, as `CompositeLock.release_hold`, even if a Ctrl-C comes anywhere.

    Args:
        lock: the composite lock.
        hold: what to release.
    """

    __slots__ = ("_hold", "_lock", "_member_steps", "_refused")
    result = None

    def __init__(self, lock: CompositeLock, hold: CompositeHold) -> None:
        self._lock = lock
        self._hold = hold
        self._member_steps: MemberSteps | None = None
        self._refused = False

    def begun(self) -> bool:
        """Return whether it has begun at any member."""
        return bool(self._member_steps)

    def refuse(self) -> None:
        """Note that nothing was done."""
        self._refused = True

    def carry_on(self, failure: BaseException | None) -> Op[None]:
        """Release the members, or complete what *failure* has interrupted."""
        if failure is None:
            return self._in_turn()
        steps = self._member_steps
        return failing(failure, steps.settle(failure) if steps else self._in_turn())

    def _in_turn(self) -> Op[None]:
        """Release each member by a script of its own."""
        member_steps = self._member_steps = MemberSteps()
        try:
            yield from self._lock.release_in_turn(self._hold, member_steps)
        except Exception:
            self._refused = not member_steps
            raise

    def over(self) -> bool:
        """Return whether it was refused, or no member has anything left to do."""
        steps = self._member_steps
        return self._refused or (steps is not None and bool(steps) and steps.over())


class CompositeLock(ABC):
    """Several locks that are held as one; their clients are in one process and share a clock.

    Args:
        members: the locks.
        needed: how many of them make a hold.

    Attributes:
        members: the locks, in the order in which they are taken.
        name: the names of all members, each once.
        needed: how many members make a hold.
        spare: how many may be missing.

    Raises:
        ConfigError: there are no members, or one of them is given twice.
    """

    kind: str

    def __init__(self, members: Sequence[LockBase], needed: int) -> None:
        if not members:
            raise ConfigError(f"a {self.kind} needs members")
        self.members = sorted(members, key=lambda member: member.sort_key)
        for one, other in zip(self.members, self.members[1:], strict=False):
            # Kinds that share a key exclude each other, or are different views of one lock.
            if one.sort_key[:2] == other.sort_key[:2]:
                raise ConfigError(f"{one.kind} {one.name!r} is a member twice")
        self.name = " + ".join(dict.fromkeys(member.name for member in self.members))
        self.needed = needed
        self.spare = len(self.members) - needed
        self._session = self.members[0].session

    @abstractmethod
    def _patience(self, lease: float | None = None) -> float | None:
        """Return how many seconds to wait for a server; None: until an outage is over."""
        ...

    @abstractmethod
    def _obtain(self, request: AcquireRequest) -> Op[CompositeHold | None]:
        """Acquire as `acquire` does, for an owner without a lost hold.

        Return None if nothing was taken.
        """
        ...

    @abstractmethod
    def _unavailable(self, failures: dict[str, InterlockError]) -> InterlockError:
        """Return the error for too few available members; *failures* says why, by member."""
        ...

    # What the faces call.

    def acquire(
        self, owner: Owner, deadline: float, lease: float | None
    ) -> Step[CompositeHold | None]:
        """Acquire for *owner*, waiting until *deadline*; arguments as for `LockBase.acquire`.

        Returns:
            The hold, or None when *deadline* came first; then nothing is held.

        Raises:
            ReentryError: a member is not reentrant and *owner* holds it.
            HoldLostError: a re-entry found that the hold is lost.
            ServerUnavailableError: for a multi lock: a server gave no usable answer in time. All
                that was taken is given back.
            QuorumError: for a red lock: too few servers can be reached for a quorum.
        """
        self.refuse_vain_wait(owner, deadline)
        member_steps = MemberSteps()
        acquiring = self.acquire_in_turn(owner, deadline, lease, member_steps)
        return Undoable(acquiring, member_steps.over, member_steps.settle)

    def refuse_vain_wait(self, owner: Owner, deadline: float) -> None:
        """Raise ReentryError if only this thread could end the wait of *owner* for a member."""
        if not owner.alone_in:
            for member in self.members:
                owner.refuse_vain_wait(member, deadline)

    def acquire_in_turn(
        self, owner: Owner, deadline: float, lease: float | None, member_steps: MemberSteps
    ) -> Op[CompositeHold | None]:
        """Acquire as `acquire` does, with a script for each member; note *member_steps*."""
        lease = None if lease is None else check_lease(lease)
        holds = self._holds(owner)
        hold = self._made_of(holds)
        if hold is not None and hold.lost(self._session.clock()):
            if any(member.inside() and not member.ran_out() for member in hold.members):
                # The owner must hear of the loss. It has to release the lost hold before it
                # acquires another.
                raise self._lost(hold)
            # Otherwise members that are left would be re-entered, and lost ones acquired anew.
            # Their depths would differ.
            yield from self._end(hold, member_steps)
            hold, holds = None, self._holds(owner)
        request = AcquireRequest(owner, deadline, lease, hold, member_steps, depths(holds))
        return (yield from undoing(self._obtain(request), self._give_back, request))

    def refusal(self, timeout: float) -> Op[AcquireTimeoutError]:
        """Return the error for an owner that did not get it in *timeout* seconds.

        One round trip asks who holds a member.
        """
        asking = [(member.session, member.status()) for member in self.members]
        answers = yield from lockstep(asking, PROMPT)
        held = [
            (member, holder)
            for member, answer in zip(self.members, answers, strict=True)
            if isinstance(answer, LockStatus)
            for holder in answer.holders
        ]
        if not held:
            return not_acquired(self.kind, self.name, timeout, None, self._session)
        # One that another client holds, if there is one: this owner may hold some itself.
        foreign = (each for each in held if each[0].session.holds.label_of(each[1]) is None)
        member, holder = next(foreign, held[0])
        what = f"{member.kind} {member.name!r}"
        return not_acquired(self.kind, self.name, timeout, holder, member.session, member=what)

    def release(self, owner: Owner) -> Step[None]:
        """Go down by one depth in every member; errors as for `release_hold`."""
        hold = self.hold_of(owner)
        if hold is None:
            return Refused(not_held(self.kind, self.name, owner.label))
        return self.release_hold(hold)

    def release_hold(self, hold: CompositeHold) -> Step[None]:
        """Go down by one depth in every member of *hold*, for any caller.

        Raises:
            NotHeldError: it was released before.
            HoldLostError: fewer members than are needed were still held.
            ServerUnavailableError: too many servers gave no reply, so others may still be kept
                out. The background goes on with the release.

        Cost:
            One round trip to all servers at once.
        """
        return ReleaseMembers(self, hold)

    def release_in_turn(self, hold: CompositeHold, member_steps: MemberSteps) -> Op[None]:
        """Release as `release_hold` does, with a script for each member."""
        present = [member for member in hold.members if member.state is not ENDED]
        # A release that was begun before is carried through.
        if len(present) < self.needed and all(member.state is not ENDING for member in present):
            raise not_held(self.kind, self.name, hold.label)
        outcomes = yield from self._release_all(present, member_steps)
        if outcomes.count(None) < len(outcomes):
            yield from self.judge_release(hold, present, outcomes, member_steps)

    def judge_release(
        self,
        hold: CompositeHold,
        present: Sequence[Hold],
        outcomes: Outcomes,
        member_steps: MemberSteps,
    ) -> Op[None]:
        """Complete a release of *hold* after the *outcomes* at the members that were *present*."""
        lost = [outcome for outcome in outcomes if isinstance(outcome, HoldLostError)]
        if lost and len(outcomes) - len(lost) < self.needed:
            yield from self._end(hold, member_steps)
            raise self._lost(hold, lost[0]) from lost[0]
        unreached = [
            outcome
            for member, outcome in zip(present, outcomes, strict=True)
            if member.state is ENDING and outcome is not None
        ]
        if len(unreached) > self.spare:
            raise unreached[0]
        self._forget(present)

    def extend(self, owner: Owner, lease: float) -> Step[None]:
        """Extend the hold of *owner*; errors as for `extend_hold`."""
        hold = self.hold_of(owner)
        if hold is None:
            return Refused(not_held(self.kind, self.name, owner.label))
        return self.extend_hold(hold, lease)

    def extend_hold(self, hold: CompositeHold, lease: float) -> Step[None]:
        """Extend enough members to at least *lease* seconds from now, by one round trip to all.

        Raises:
            NotHeldError: it was released.
            HoldLostError: fewer members than are needed are still held.
            ServerUnavailableError: fewer members than are needed answered.
        """
        member_steps = MemberSteps()
        extending = self._extend_all(hold, lease, member_steps)
        return Undoable(extending, member_steps.over, member_steps.settle)

    def _extend_all(self, hold: CompositeHold, lease: float, member_steps: MemberSteps) -> Op[None]:
        if hold.state is ENDED:
            raise not_held(self.kind, self.name, hold.label)
        failure = yield from self._extend_members(hold, check_lease(lease))
        if isinstance(failure, HoldLostError):
            # The failed extension has ended the lost member's hold, so the others end too.
            yield from self._end(hold, member_steps)
            raise self._lost(hold, failure) from failure
        if failure is not None:
            raise failure

    def force_release(self) -> Op[bool]:
        """Free every member, no matter who holds it; return whether any was locked.

        Raises:
            InterlockError: more members than are spare could not be reached. The others were freed.

        Cost:
            One round trip to all servers at once.
        """
        outcomes = yield from self._all(lambda member: member.force_release())
        failures = self._failures(outcomes)
        if len(failures) > self.spare:
            raise self._unavailable(failures)
        return any(outcome is True for outcome in outcomes)

    def status(self) -> Op[LockStatus]:
        """Ask all members. It counts as locked while too few members are free to acquire it.

        Raises:
            InterlockError: the answer depends on members that could not be reached.

        Cost:
            One round trip to all servers at once.
        """
        outcomes = yield from self._all(lambda member: member.status())
        failures = self._failures(outcomes)
        known = [outcome for outcome in outcomes if isinstance(outcome, LockStatus)]
        remaining = [status.remaining for status in known if status.remaining is not None]
        if len(remaining) <= self.spare:
            if len(remaining) + len(failures) > self.spare:
                raise self._unavailable(failures)
            return LockStatus(None, {})
        return LockStatus(sorted(remaining, reverse=True)[self.spare], {})

    def depth_of(self, owner: Owner) -> Op[int]:
        """Return how deep *owner* holds enough members.

        Without a hold it is 0, and there is no round trip. It is also 0 if the servers know nothing
        of the hold.

        Raises:
            InterlockError: more members than are spare could not be reached.
        """
        if self.hold_of(owner) is None:
            return 0
        outcomes = yield from self._all(lambda member: member.depth_of(owner))
        failures = self._failures(outcomes)
        if len(failures) > self.spare:
            raise self._unavailable(failures)
        # The depth is known here. The servers know whether there is a hold at all. If a server
        # cannot be reached for a moment, a hold that is valid there still counts.
        now = self._session.clock()
        known = [
            hold.depth if hold and hold.valid(now) and outcome != 0 else 0
            for outcome, hold in zip(outcomes, self._holds(owner), strict=True)
        ]
        return sorted(known, reverse=True)[self.needed - 1]

    def hold_of(self, owner: Owner) -> CompositeHold | None:
        """Return *owner*'s hold as known locally, even if it is lost or just being released."""
        return self._made_of(self._holds(owner))

    # How it is done.

    def _made_of(self, holds: Sequence[Hold | None]) -> CompositeHold | None:
        """Return the hold that the members' *holds* make up; None if they are too few.

        While one of them is being released, any number is enough.
        """
        held = [hold for hold in holds if hold is not None]
        if not held:
            return None
        if len(held) >= self.needed or any(hold.state is ENDING for hold in held):
            return CompositeHold(self, held)
        return None

    def _extend_members(self, hold: CompositeHold, lease: float) -> Op[InterlockError | None]:
        """Extend every member of *hold*; return None if enough succeeded, else what to raise."""
        steps = [(member.core.session, member.extend(lease)) for member in hold.members]
        outcomes = yield from lockstep(steps, self._patience(lease))
        failures = [outcome for outcome in outcomes if outcome is not None]
        if len(outcomes) - len(failures) >= self.needed:
            return None
        lost = [failure for failure in failures if isinstance(failure, HoldLostError)]
        return next(iter(lost or failures), None)

    def _end(self, hold: CompositeHold, member_steps: MemberSteps) -> Op[None]:
        """Give back what is left of a lost hold, at all depths."""
        for _ in range(max(member.depth for member in hold.members)):
            _ = yield from self._release_all(hold.members, member_steps)
        self._forget(hold.members)

    def _give_back(self, request: AcquireRequest, error: BaseException | None = None) -> Op[None]:
        """Go back to the former depths; the step undoes what *error* has left under way.

        A member that cannot be reached ends later, through the background or its lease.
        """
        del error
        taken = self._taken(request)
        # Failures are ignored. The background does the rest, and the try failed for a reason of its
        # own. A server that hangs must not delay an owner that gives up.
        _ = yield from self._release_all(taken, request.member_steps, GRACE)
        self._forget(taken)

    def _taken(self, request: AcquireRequest) -> list[Hold]:
        """Return the holds that *request* has entered and not given back, once each.

        Each of them must go down by one depth.
        """
        entered = (HELD, LOST)
        return [
            hold
            for hold, depth in zip(self._holds(request.owner), request.former, strict=True)
            if hold and hold.state in entered and hold.depth > depth
        ]

    def _lost(self, hold: CompositeHold, first: HoldLostError | None = None) -> HoldLostError:
        reason = hold.reason or hold.expiry_reason()
        # The reason of a loss comes a round trip after it: another member may know more.
        told = first if first and first.reason == reason else tell_loss(reason, hold.detail)
        return HoldLostError(
            f"{self.kind} {self.name!r} was lost: {told}",
            name=self.name,
            reason=reason,
            detail=hold.detail,
        )

    def _pause(self, deadline: float) -> Op[None]:
        """Wait for a random time, so that owners that blocked each other try one by one."""
        session = self._session
        until = session.clock() + LONGEST_BACKOFF * (0.1 + 0.9 * session.random())
        yield from Wait(None, min(deadline, until))

    # One operation of each member at the same time.

    def _holds(self, owner: Owner) -> list[Hold | None]:
        """Return the hold that *owner* has of each member, even if it is lost."""
        return [member.hold_of(owner) for member in self.members]

    def _all(
        self,
        op: Callable[[LockBase], Op[R] | Step[R]],
        members: Sequence[LockBase] | None = None,
        lease: float | None = None,
    ) -> Op[list[R | InterlockError]]:
        """Run *op* of each of *members* (None: of all) at once."""
        chosen = self.members if members is None else members
        return lockstep([(m.session, op(m)) for m in chosen], self._patience(lease))

    def _release_all(
        self, holds: Sequence[Hold], member_steps: MemberSteps, patience: float | None = None
    ) -> Op[list[InterlockError | None]]:
        """Go down by one depth in each of *holds*.

        If a server does not answer within *patience* seconds (None: `_patience`), the hold still
        goes down as far as is known here.
        """
        releases = [(hold.core, hold.release()) for hold in holds]
        member_steps.add(*releases)
        steps = [(core.session, release) for core, release in releases]
        seconds = self._patience() if patience is None else patience
        outcomes = yield from lockstep(steps, seconds)
        if outcomes.count(None) < len(outcomes):
            for hold, outcome in zip(holds, outcomes, strict=True):
                if hold.state is HELD and outcome is not None:
                    # Scripts name the depth to reach: a later one tells the server, if need be.
                    _ = hold.leave()
        return outcomes

    @staticmethod
    def _forget(holds: Sequence[Hold]) -> None:
        """Forget each of *holds* that is left to the background to release."""
        for hold in holds:
            if hold.state is ENDING:
                hold.core.session.holds.end(hold)

    def _failures(
        self, outcomes: Sequence[object], members: Sequence[LockBase] | None = None
    ) -> dict[str, InterlockError]:
        """Return the errors of servers and of the holds there, by member and server.

        Raise any other error: it is the caller's own mistake.
        """
        chosen = self.members if members is None else members
        failures: dict[str, InterlockError] = {}
        for member, outcome in zip(chosen, outcomes, strict=True):
            if isinstance(outcome, _FAILURES):
                failures[f"{member.name} at {member.session.where}"] = outcome
            elif isinstance(outcome, InterlockError):
                raise outcome
        return failures


def depths(holds: Sequence[Hold | None]) -> list[int]:
    """Return the depth of each of *holds* as known locally, even if it is lost."""
    entered = (HELD, LOST)
    return [hold.depth if hold and hold.state in entered else 0 for hold in holds]


# A hold of several locks.


class CompositeHold:
    """One owner's possession of several names; it is used like a `Hold`.

    It knows only what its members know. Each member is renewed, and may be lost, on its own.

    Attributes:
        core: the locks.
        members: a hold of each member that was taken.
        token: None; tokens belong to the members.
        token_source: None, too.
    """

    token: int | None = None
    token_source: str | None = None
    owned = False

    def __init__(self, core: CompositeLock, members: Sequence[Hold]) -> None:
        self.core = core
        self.members = list(members)
        self.name = core.name
        self.holder = members[0].holder
        self.label = members[0].label

    def __repr__(self) -> str:
        return f"<CompositeHold {self.name!r} of {len(self.members)}, {self.core.needed} needed>"

    def __eq__(self, other: object) -> bool:
        """Return whether *other* is the same possession, looked up at another time."""
        if not isinstance(other, CompositeHold):
            return NotImplemented
        return self.core is other.core and self.members == other.members

    def __hash__(self) -> int:
        return hash((self.core, *self.members))

    def _enough(self, values: Sequence[float]) -> float:
        """Return the largest value that enough members reach; 0 if there are too few members."""
        ordered = sorted(values, reverse=True)
        return ordered[self.core.needed - 1] if len(ordered) >= self.core.needed else 0

    @property
    def replicas(self) -> int | None:
        """Return how many replicas the least replicated member had.

        None if replicas were asked about no member.
        """
        known = [hold.replicas for hold in self.members if hold.replicas is not None]
        return min(known, default=None)

    @property
    def depth(self) -> int:
        """Return how often enough members were entered."""
        return int(self._enough([hold.depth for hold in self.members if hold.state is HELD]))

    @property
    def valid_until(self) -> float:
        """Return the time until which enough members are valid."""
        return self._enough([hold.valid_until for hold in self.members if hold.state is HELD])

    @property
    def state(self) -> str:
        """Return LOST, HELD or ENDED."""
        states = [hold.state for hold in self.members]
        if states.count(HELD) >= self.core.needed:
            return HELD
        return LOST if LOST in states else ENDED

    @property
    def reason(self) -> LossReason | None:
        """Return why a member was lost: released by force, if one is known to be."""
        reasons: list[LossReason] = [
            hold.reason for hold in self.members if hold.reason is not None
        ]
        if "force-released" in reasons:
            return "force-released"
        return next(iter(reasons), None)

    @property
    def detail(self) -> str:
        """Return the reason that an operator gave for releasing a member by force."""
        return next((hold.detail for hold in self.members if hold.detail), "")

    def expiry_reason(self) -> LossReason:
        """Return why it is lost, if its validity has run out."""
        return self.members[0].expiry_reason()

    def valid(self, now: float) -> bool:
        """Return whether nobody else can hold enough members."""
        return sum(hold.valid(now) for hold in self.members) >= self.core.needed

    def lost(self, now: float) -> bool:
        """Return whether it ended without being released."""
        return self._too_few([hold.lost(now) for hold in self.members])

    def kept(self) -> bool:
        """Return whether its owner has not released it yet, even if it is lost."""
        return any(hold.kept() for hold in self.members)

    def leaving(self) -> bool:
        """Return whether its last release has begun at every member that is left."""
        # A member that was lost before the release keeps its depth, so it shows nothing.
        rest = [hold for hold in self.members if hold.depth == 0 or hold.state is not LOST]
        return bool(rest) and all(hold.leaving() for hold in rest)

    def hand(self, handle: Callable[[], object], *, alone: bool = True) -> None:
        """Keep every member while the object of *handle* lives; arguments as for `Hold.hand`."""
        try:
            self._hand_all(handle, alone)
        except BaseException:
            # A Ctrl-C: hand out all members, or some would be kept without the others.
            self._hand_all(handle, alone)
            raise

    def _hand_all(self, handle: Callable[[], object], alone: bool) -> None:
        for hold in self.members:
            hold.hand(handle, alone=alone)

    def own(self) -> None:
        """Allow the owner to release every member, even if all handles of the user are gone."""
        for hold in self.members:
            hold.own()

    def stay_with(self, keeper: Callable[[], object], place: str) -> None:
        """Keep every member while the lock object of *keeper* lives, as `Hold.stay_with`."""
        for hold in self.members:
            hold.stay_with(keeper, place)

    def left_to(self, keeper: Callable[[], object]) -> bool:
        """Return whether the job is over that acquired it by the lock object of *keeper*."""
        return self.members[0].left_to(keeper)

    def owner(self) -> Owner | None:
        """Return who has acquired it; None if that is gone."""
        return self.members[0].owner()

    def release(self) -> Step[None]:
        """Go down by one depth in every member."""
        return self.core.release_hold(self)

    def extend(self, lease: float) -> Step[None]:
        """Extend every member to at least *lease* seconds from now."""
        return self.core.extend_hold(self, lease)

    def listen(self, callback: Callable[[], object]) -> bool:
        """Tell *callback* once of a loss.

        Return False if it is lost already. Then the caller must tell *callback*.
        """
        listener = _Listener(self, callback)
        for hold in self.members:
            _ = hold.listen(listener)
        return not (self.is_lost() and listener.taken())

    def unlisten(self, callback: Callable[[], object]) -> None:
        """Stop telling *callback* of a loss."""
        for hold in self.members:
            hold.unlisten(_Listener(self, callback))

    def hand_on(self, successor: CompositeHold) -> None:
        """Hand its handles and its listeners on to the next hold of its owner."""
        former = {hold.core: hold for hold in self.members}
        ours = {
            id(listener): listener
            for hold in self.members
            for listener in hold.listeners()
            if isinstance(listener, _Listener)
        }
        for hold in successor.members:
            if hold.core in former:
                former[hold.core].hand_on(hold)
            else:
                # A red lock may hold other members than before.
                self.members[0].share(hold, ours.values())

    def latest(self) -> CompositeHold:
        """Return the hold that has taken its place, or itself."""
        for hold in self.members:
            after = hold.latest()
            if after is not hold and (owner := after.owner()) is not None:
                return self.core.hold_of(owner) or self
        return self

    def is_lost(self) -> bool:
        """Return whether it is known to be lost."""
        return self._too_few([hold.state is LOST for hold in self.members])

    def _too_few(self, lost: Sequence[bool]) -> bool:
        """Return whether too few members are left, because some are *lost*."""
        return any(lost) and lost.count(False) < self.core.needed


class _Listener:
    """Tells *callback* once, when *hold* is lost. It is called for the loss of each member."""

    __slots__ = ("_callback", "_hold", "_untold")

    def __init__(self, hold: CompositeHold, callback: Callable[[], object]) -> None:
        self._hold = hold
        self._callback = callback
        self._untold = [callback]

    def __call__(self) -> None:
        if self._hold.latest().is_lost() and self.taken():
            _ = self._callback()

    def __eq__(self, other: object) -> bool:
        """Return whether *other* tells the same callback."""
        return isinstance(other, _Listener) and self._callback == other._callback

    def __hash__(self) -> int:
        return hash(self._callback)

    def taken(self) -> bool:
        """Return whether to tell the callback; only one of several threads gets True."""
        try:
            _ = self._untold.pop()
        except IndexError:
            return False
        return True


# Operations in lockstep.


class _Run:
    """One operation in lockstep: where it stands, and its outcome.

    Attributes:
        effect: what it asks for; None if it has ended.
        fails: whether it has failed, and cleans up.
        interruption: the exception that was thrown into it.
        result: its result, or its error.
        session: its client.
    """

    __slots__ = (
        "_call", "_deadline", "_op", "_patient", "_step", "_tries", "effect", "fails",
        "interruption", "result", "session",
    )  # fmt: skip

    def __init__(
        self,
        session: Client,
        op: Op[Any] | Step[Any],
        interruption: BaseException | None,
        *,
        begun: bool,
    ) -> None:
        self.session = session
        self.effect: Effect | None = None
        self.result: Any = None
        self.interruption = interruption
        # A step that has begun, until `rest` makes an operation of what is left of it.
        self._step: Step[Any] | None = None
        self._op: Op[Any] | None = None
        if not isinstance(op, Step):
            self._op = op
        elif begun:
            self._step = op
        else:
            self._op = iter(op)
        self.fails = False
        self._call: Eval[object] | None = None
        self._deadline, self._patient = 0.0, False
        self._tries = 0

    def has_ended(self, result: object) -> None:
        """Note that the step was complete with its first command, and its *result*."""
        self.result, self._step = result, None

    def rest(self, call: Eval[object] | None = None, failure: BaseException | None = None) -> None:
        """Go on after the step has begun with *call*, which was not answered, or with *failure*.

        Without either the first command is missing, or was not enough.
        """
        assert self._step is not None
        self.fails = failure is not None
        self._op, self._step = self._step.performed(call, failure), None
        self.step()

    def heard(self, reply: object, patience: float | None) -> None:
        """Go on with the *reply* to the `question`, or with what came in place of it."""
        if reply is LATE:
            self.give_up()
        elif isinstance(reply, Exception):
            self.failed(reply, patience)
        else:
            self.step(reply)

    def step(self, reply: object = None, error: BaseException | None = None) -> None:
        """Go on with *reply* or *error* until the next effect or the end."""
        self.effect = None
        assert self._op is not None
        try:
            self.effect = self._op.send(reply) if error is None else self._op.throw(error)
        except StopIteration as stop:
            self.result = stop.value
        except BaseException as raised:
            # The interruption goes on to the caller when all operations have ended.
            if raised is not self.interruption and not isinstance(raised, InterlockError):
                raise
            self.result = raised
        finally:
            if self._call is not None and self.effect is not self._call:
                self._return_call()

    def _return_call(self) -> None:
        """Give the script that was sent its own deadline back: a lock keeps it, and sends it again.

        The deadline was changed by `question`.
        """
        if self._call is not None:
            self._call.deadline, self._call.patient = self._deadline, self._patient
            self._call = None

    def interrupt(self, error: BaseException) -> None:
        """Throw *error* into the operation, wherever it stands.

        Its effect may not be noted here, because a Ctrl-C came before that.
        """
        self.interruption = error
        if self._step is not None:
            self.rest(failure=error)
        elif self._op is not None and not ended(self._op):
            self.step(error=error)
        else:
            self._return_call()  # a Ctrl-C may have come just before that

    def abandon(self) -> None:
        """Note that nobody is left to perform the rest."""
        if self._step is not None:
            self._step.abandon()
        elif self._op is not None:
            self._op.close()

    def perform(self) -> Op[None]:
        """Perform the effect that the operation asks for."""
        assert self.effect is not None
        try:
            reply = yield self.effect
        except InterlockError as error:
            self.step(error=error)
        else:
            self.step(reply)

    def question(self, patience: float | None) -> tuple[Client, Eval[object]]:
        """Return the client, and the script that the operation asks for, ready to be sent."""
        call: Any = self.effect
        if call is self._call:
            self._tries += 1
        else:
            self.has_sent(call, None if patience is None else self.session.clock() + patience)
            if patience is not None and call.replication is not None:
                call.replication.timeout = min(call.replication.timeout, patience)
        return self.session, call

    def has_sent(self, call: Eval[object], until: float | None) -> None:
        """Note that *call* is sent, and has time *until* then; None: as long as it says."""
        self._call, self._deadline, self._tries = call, call.deadline, 1
        self._patient = call.patient
        if until is not None:
            call.patient, call.deadline = False, until

    def give_up(self) -> None:
        """Fail, because others have decided: what was sent may be executed later."""
        self.fails = True
        # Not transient: nobody sends it again.
        self.step(error=ServerUnavailableError("it answered later than enough others", sent=True))

    def failed(self, error: Exception, patience: float | None) -> None:
        """Go on with *error*, which ended the `question`."""
        if patience is not None and self._tries >= TRIES and self._call is not None:
            self._call.deadline = self.session.clock()
        self.step(error=error)


def lockstep(
    ops: Sequence[tuple[Client, Op[R] | Step[R]]],
    patience: float | None = None,
    interruption: BaseException | None = None,
    enough: int | None = None,
) -> Op[list[R | InterlockError]]:
    """Run *ops*, each for the client of its session.

    Args:
        ops: the operations.
        patience: seconds that each script is given in place of its own deadline. Then nobody waits
            for the end of an outage.
        interruption: the exception after which each of *ops* cleans up; each may raise it again.
        enough: how many acquires decide. If so many have succeeded, the others are given up soon,
            and clean up.

    Returns:
        The outcome of each: its result, or the InterlockError that it raised.

    Cost:
        The longest of their round trips, step by step.
    """
    group = _Group(ops, patience, interruption)
    try:
        return (yield from undoing(_in_step(group, patience, enough), _interrupt, group))
    except GeneratorExit:
        for run in group.runs():
            run.abandon()
        raise


def _in_step(group: _Group, patience: float | None, enough: int | None) -> Op[list[Any]]:
    """Send the first commands of *group* at once, then go on with what takes longer."""
    if group.begin():
        decided = None if enough is None else _Decided(group.calls, enough)
        replies: Any = yield Gather(tuple(group.calls), decided, patience)
        if group.ended(replies):
            return group.results
    runs = group.begun_runs()
    yield from _go_on(runs, patience, enough)
    return [run.result for run in runs]


class _Group:
    """The operations in lockstep: the arguments of `lockstep`.

    Most are steps that end with their first command. Each gets a `_Run` only if one of them does
    not.

    Attributes:
        calls: the first commands of the steps that have begun, each with its client.
        results: the results of the first steps.
    """

    __slots__ = (
        "_begun", "_heard", "_interruption", "_ops", "_patience", "_runs", "_sent", "_until",
        "calls", "results",
    )  # fmt: skip

    def __init__(
        self,
        ops: Sequence[tuple[Client, Op[Any] | Step[Any]]],
        patience: float | None,
        interruption: BaseException | None,
    ) -> None:
        self._ops = ops
        self._patience = patience
        self._interruption = interruption
        self._begun, self._heard, self._sent = 0, 0, False
        self._until: float | None = None
        self._runs: list[_Run] | None = None
        self.calls: list[tuple[Client, Eval[object]]] = []
        self.results: list[Any] = []

    def begin(self) -> bool:
        """Begin the steps, in their order; return whether each has a first command to send."""
        if self._interruption is not None:
            return False
        calls = self.calls
        for session, step in self._ops:
            if not isinstance(step, Step):
                return False
            self._begun += 1
            call = failure = None
            try:
                call = step.begin()
            except BaseException as error:  # noqa: BLE001 - the rest of the step raises it again
                failure = error
            if call is None or call.replication is not None:
                self.runs()[len(calls)].rest(call, failure)
                return False
            calls.append((session, call))
        if not calls:
            return False
        if self._patience is not None:
            self._until = calls[0][0].clock() + self._patience
        self._sent = True
        return True

    def ended(self, replies: Sequence[object]) -> bool:
        """Take the *replies* to `calls`; return whether all steps are complete."""
        results = self.results
        for (_, step), (_, call), reply in zip(self._ops, self.calls, replies, strict=True):
            place = len(results)
            if reply is not LATE and not isinstance(reply, Exception):
                assert isinstance(step, Step)
                self._heard += 1
                complete, failure = False, None
                try:
                    complete = step.done(call.script.decode(reply))
                except BaseException as error:  # noqa: BLE001 - as in `begin`
                    failure = error
                if complete:
                    # Not above: a Ctrl-C after this is no failure of this step.
                    results.append(step.result)
                    continue
                self.runs()[place].rest(failure=failure)
                place += 1
            for run, later in zip(self.runs()[place:], replies[place:], strict=True):
                run.heard(later, self._patience)
            return False
        return True

    def runs(self) -> list[_Run]:
        """Return the operations, each where it stands."""
        if self._runs is None:
            runs = [
                _Run(session, op, self._interruption, begun=place < self._begun)
                for place, (session, op) in enumerate(self._ops)
            ]
            for run, result in zip(runs, self.results, strict=False):
                run.has_ended(result)
            # A step that has got its reply goes on with `rest`, not with that reply again.
            waiting = zip(runs[self._heard :], self.calls[self._heard :], strict=False)
            for run, (_, call) in waiting:
                run.rest(call)
            # Before the deadlines are changed: after a Ctrl-C, they must not be changed once more.
            self._runs = runs
            for run, (_, call) in zip(runs, self.calls, strict=False):
                if self._sent and run.effect is call:
                    run.has_sent(call, self._until)
        return self._runs

    def begun_runs(self) -> list[_Run]:
        """Return the operations, after the last of them have begun."""
        runs = self.runs()
        for run in runs[self._begun :]:
            run.step()
        return runs


def _go_on(runs: Sequence[_Run], patience: float | None, enough: int | None = None) -> Op[None]:
    while active := [run for run in runs if run.effect is not None]:
        if enough is not None and _acquired(runs) >= enough:
            enough = None
            for run in active:
                if not run.fails:  # else its clean-up would be left to the background
                    run.give_up()
            continue
        others = [run for run in active if type(run.effect) is not Eval]  # `isinstance` is a call
        for run in others:
            yield from RunOn(run.session, run.perform())
        if others:
            continue
        # The operations get the bare replies, and decode them.
        questions = tuple([run.question(patience) for run in active])
        decided = None if enough is None else _Decided(questions, enough - _acquired(runs))
        replies: Any = yield Gather(questions, decided)
        for run, reply in zip(active, replies, strict=True):
            run.heard(reply, patience)


def _acquired(runs: Sequence[_Run]) -> int:
    """Return how many of *runs* have acquired."""
    return sum(isinstance(run.result, Hold) for run in runs)


class _Decided:
    """Counts grants among the replies to *questions*; *missing* of them decide."""

    __slots__ = ("_missing", "_questions", "least", "linger")

    def __init__(self, questions: Sequence[tuple[Client, Eval[object]]], missing: int) -> None:
        self._questions = questions
        self._missing = self.least = missing
        self.linger = LINGER

    def __call__(self, place: int, reply: object, took: float) -> float | None:
        """Take a reply, as `Gather.enough`; a decision that *took* long waits as long again."""
        if not isinstance(reply, Exception):
            with suppress(Exception):  # its operation tells of a reply that cannot be read
                answer = self._questions[place][1].script.decode(reply)
                self._missing -= isinstance(answer, Grant)
        return max(LINGER, took) if self._missing <= 0 else None


def _interrupt(group: _Group, error: BaseException) -> Op[None]:
    """Throw *error* into each operation that has not ended; perform its clean-up."""
    runs = group.runs()
    for run in runs:
        run.interrupt(error)
    yield from _go_on(runs, None)
