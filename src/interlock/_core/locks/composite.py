"""Several locks that are held as one: what multi lock and red lock have in common.

A composite hold is a view. Its parts are ordinary holds in the clients of the members, and it is an
entry of each of them. So a part is renewed, lost and released like any other hold, and its owner may
enter it by itself, too. Nothing is sent for the composite hold itself, which has no id.

    first try    all members at once; by one script if they are plain locks of one client
    held         as long as enough parts are: all of a multi lock, a majority of a red lock
    re-entry     counts here alone, unless the lease is to be longer
    release      each part loses its entry; those that have no other one are released, at once
    given up     the same without I/O: what servers may still have is the garbage of their clients

Source: RedissonMultiLock, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.locks.base import Acquire, Lock, let_go, note_entered
from interlock._core.locks.errors import ended_error, lost_error
from interlock._core.locks.release import Extend, Release, depth_of, last_by_hand
from interlock._core.locks.together import Enough, at_once
from interlock._core.model.effects import GRACE, LATE, Gather, begun, performed
from interlock._core.model.hold import ENDED, LEAST, LOST, OPEN, Hold
from interlock._core.scripts.locks import FREED, LEFT_ALONE, LockStatus
from interlock.errors import (
    ConfigError,
    HoldLostError,
    InterlockError,
    ReplicationError,
    ServerUnavailableError,
    WrongTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.hold import Owner
    from interlock.errors import LossReason

PAST = 0.0
"""The deadline of one try."""
FAILURES = ServerUnavailableError, WrongTypeError, HoldLostError, ReplicationError
"""Errors that concern one server, or the hold there."""


def _of_parts(read: Callable[[CompositeHold], object]) -> Any:
    """Return a property that follows from the parts; what `Hold.of` would write is ignored."""
    return property(read, lambda _hold, _value: None)


class CompositeHold(Hold):
    """A hold of several members: what other holds know of themselves is known by its parts.

    Attributes:
        parts: what it is made of; some of them may have ended.
        steps: the acquires of its parts, until it is held.
    """

    __slots__ = ("_over", "parts", "steps")
    parts: Sequence[Hold]  # pyright: ignore[reportIncompatibleVariableOverride]
    lock: Composite  # pyright: ignore[reportIncompatibleVariableOverride]
    steps: Sequence[Acquire]

    def _living(self) -> list[Hold]:
        return [part for part in self.parts if part.over is None and self in part.entries]

    @property
    def over(self) -> str | None:  # pyright: ignore[reportIncompatibleVariableOverride]
        """ENDED once it is released; before that LOST or ENDED if too few parts are left."""
        if self._over is not None or not self.entries:
            return self._over
        if len(self._living()) >= self.lock.needed:
            return None
        return LOST if any(part.over is LOST for part in self.parts) else ENDED

    @over.setter
    def over(self, over: str | None) -> None:  # pyright: ignore[reportIncompatibleVariableOverride]
        self._over = over

    @property
    def released(self) -> bool:
        return self._over is ENDED  # whatever its parts are

    @_of_parts
    def valid_until(self) -> float:
        """The time until which enough parts are valid; 0 if too few are left."""
        ends = sorted([part.valid_until for part in self._living()], reverse=True)
        return ends[self.lock.needed - 1] if len(ends) >= self.lock.needed else 0.0

    def _lost_part(self) -> Hold | None:
        """Return the part that tells why it is lost: one released by force, if there is one."""
        lost = [part for part in self.parts if part.reason is not None]
        return min(lost, key=lambda part: part.reason != "force-released", default=None)

    @_of_parts
    def reason(self) -> LossReason | None:
        return getattr(self._lost_part(), "reason", None)

    @_of_parts
    def detail(self) -> str:
        return getattr(self._lost_part(), "detail", "")

    @property
    def holder(self) -> str:
        return next((part.holder for part in self.parts), "")

    @property
    def replicas(self) -> int | None:
        """How many replicas had the part that the fewest had; None if they were not asked."""
        known = [part.replicas for part in self.parts if part.replicas is not None]
        return min(known, default=None)

    def expiry_reason(self) -> LossReason:
        return self.parts[0].expiry_reason() if self.parts else super().expiry_reason()

    def end_by(self, time: float) -> None:
        for part in self.parts:
            part.end_by(time)

    def kept(self) -> bool:
        """Return whether it is held, or lost, or a part is left to be released."""
        return bool(self.entries) and (self.over is not ENDED or bool(self._living()))

    def claimed(self) -> bool:
        """Return whether somebody is left who can release it, or still acquires it."""
        if self.entries:
            return super().claimed()
        owner = self.owner()
        return self._over is None and owner is not None and not owner.ended()

    # How it ends.

    def lose(self) -> HoldLostError:
        """Give back what is left of it, now that its owner hears of the loss; return that error."""
        error, part = lost_error(self), self._lost_part()
        if part is not None:
            error.args = (f"{self.lock!r} was lost: {lost_error(part)}",)
        self.give_back()
        self._over = LOST
        self.lock.session.outside.tell_loss(self)
        return error

    def give_up_parts(self) -> None:
        """End it, and those parts that nobody else has entered; no I/O."""
        self.give_back()
        self._over = self._over or ENDED

    def give_back(self) -> None:
        """Take it out of all parts, also those of a try in vain; no I/O, and repeatable."""
        for step in self.steps:
            step.give_up()
        for part in self.parts:
            if part.leave(self) or not part.entries:
                part.lock.session.give_up(part)


class Composite(Lock):
    """Several locks as one; their clients are in one process and share a clock.

    Attributes:
        members: the locks, in the order in which they are taken.
        needed, spare: how many make a hold, and how many may be missing.
    """

    def __init__(self, members: Sequence[Lock], needed: int) -> None:
        if not members:
            raise ConfigError(f"a {self.kind} needs members")
        self.members = sorted(members, key=_sort_key)
        for one, other in zip(self.members, self.members[1:], strict=False):
            # Kinds that share a key exclude each other, or are different views of one lock.
            if _sort_key(one)[:2] == _sort_key(other)[:2]:
                raise ConfigError(f"{one.kind} {one.name!r} is a member twice")
        self.session = self.members[0].session
        self.name = self.key = " + ".join(dict.fromkeys(each.name for each in self.members))
        self.place = " ".join([self.kind, *[each.place for each in self.members]])
        self.needed, self.spare = needed, len(self.members) - needed
        self.reentrant = all(member.reentrant for member in self.members)
        self.token_source = None

    def renewing(self, group: Sequence[Hold], lease: float) -> Any:
        """Return None: each part has a renewal of its own."""

    def excludes(self, hold: Hold) -> bool:
        if self.spare:
            return super().excludes(hold)
        return any(member.excludes(hold) for member in self.members)

    def new_hold(self, owner: Owner, lease: float | None) -> CompositeHold:
        lasts = self.session.options.lease if lease is None else lease
        hold = CompositeHold()
        hold.parts, hold.steps = (), ()
        return hold.of(self, owner.reference, "", lasts, lease is None)

    def patience(self, lease: float | None = None) -> float | None:
        """Return how many seconds each answer may take; None: until an outage is over."""
        del lease
        return None

    def unavailable(self, failures: dict[str, InterlockError]) -> InterlockError:
        """Return the error for too few available members; *failures* says why, by member."""
        return next(iter(failures.values()))

    def obtain(self, hold: CompositeHold, deadline: float, failure: Exception | None) -> Op[bool]:
        """Acquire *hold*; return whether it is held.

        If it has parts, one script tried to take all; that was refused, or ended with *failure*.
        """
        raise NotImplementedError

    # Acquire.

    def first(self, hold: Any, deadline: float) -> Eval[Any] | None:
        """Return the script that takes all parts, if there is one; they are known then."""
        del hold, deadline
        return None

    def ask_all(self, hold: CompositeHold) -> Op[list[Any]]:
        """Try to acquire all parts at once; return for each whether it is held, or an error.

        If some may be missing, enough grants decide, and the other replies need not come.
        """
        owner: Any = hold.owner()  # which acquires just now
        lease = None if hold.renewed else hold.lease
        steps = hold.steps = [Acquire().of(each, owner, PAST, lease, hold) for each in self.members]
        calls = [_first_try(step) for step in steps]
        asked = [(each.session, call) for each, call in zip(self.members, calls, strict=True)]
        enough = Enough(calls, self.needed) if self.spare else None
        replies = yield from Gather(asked, enough, self.patience(hold.lease))
        return [_outcome(*each) for each in zip(steps, calls, replies, strict=True)]

    def failures(self, outcomes: Sequence[object]) -> dict[str, InterlockError]:
        """Return the errors of servers and of the holds there, by member and server.

        Raise any other error: it is the caller's own mistake.
        """
        failures: dict[str, InterlockError] = {}
        for member, outcome in zip(self.members, outcomes, strict=True):
            if isinstance(outcome, FAILURES):
                failures[f"{member.name} at {member.session.outside.where}"] = outcome
            elif isinstance(outcome, InterlockError):
                raise outcome
        return failures

    def keep(self, hold: CompositeHold) -> bool:
        """Keep what was granted, and give up the rest; return whether that is enough."""
        now = self.session.clock()
        parts = [step.hold for step in hold.steps if step.hold is not None]
        granted = [part for part in parts if part.valid(now) and hold in part.entries]
        if len(granted) < self.needed:
            return False
        for step in hold.steps:
            if step.hold not in granted:
                step.give_up()
        hold.parts, hold.steps = granted, ()
        return True

    def free(self, hold: CompositeHold) -> Op[None]:
        """Release what the last try for *hold* has left, or soon leave that to the background."""
        parts = [*hold.parts, *[step.hold for step in hold.steps if step.hold is not None]]
        left = [part for part in parts if part in part.lock.session.garbage.dead]
        yield from at_once([(part.lock.session, let_go(part)) for part in left], GRACE)

    # What is done with a hold.

    def leave_all(self, hold: CompositeHold, began: float) -> Eval[list[int]] | None:
        """Close the parts of *hold*, which are its parts then; return the script that releases them.

        Return None if they are to be left and released one by one.
        """
        del hold, began
        return None

    def extend_parts(self, hold: CompositeHold, lease: float) -> Op[None]:
        """Keep enough parts of *hold* for at least *lease* seconds."""
        parts = [part for part in hold.parts if part.over is None]
        ops = [(part.lock.session, performed(Extend(part, lease))) for part in parts]
        outcomes = yield from at_once(ops, self.patience(lease), len(parts) - self.needed)
        failures = [outcome for outcome in outcomes if isinstance(outcome, InterlockError)]
        if hold.over is LOST:
            raise hold.lose()
        if len(outcomes) - len(failures) < self.needed:
            raise failures[0] if failures else ended_error(hold)

    def _all(self, ops: Sequence[Op[Any]]) -> Op[list[Any]]:
        asked = [(member.session, op) for member, op in zip(self.members, ops, strict=True)]
        return at_once(asked, self.patience(), self.spare)

    def _enough(self, ops: Sequence[Op[Any]]) -> Op[list[Any]]:
        outcomes = yield from self._all(ops)
        failures = self.failures(outcomes)
        if len(failures) > self.spare:
            raise self.unavailable(failures)
        return outcomes

    def status(self) -> Op[LockStatus]:
        """Ask all members. It counts as locked while too few members are free to acquire it."""
        outcomes = yield from self._all([member.status() for member in self.members])
        failures = self.failures(outcomes)
        known = [each for each in outcomes if isinstance(each, LockStatus)]
        remaining = [each.remaining for each in known if each.remaining is not None]
        if len(remaining) > self.spare:
            return LockStatus(sorted(remaining, reverse=True)[self.spare], {})
        if len(remaining) + len(failures) > self.spare:
            raise self.unavailable(failures)
        return LockStatus(None, {})

    def depth_of(self, hold: Hold) -> Op[int]:
        """Return how deep *hold* is, if enough servers have their parts; else 0.

        A part whose server cannot be reached counts as long as it is valid.
        """
        owner: Any = hold.owner()  # who asks
        yield from self._enough([depth_of(member, owner) for member in self.members])
        return hold.depth if hold.valid(self.session.clock()) else 0

    def present_holder(self) -> Op[tuple[Lock, str | None]]:
        outcomes = yield from self._all([member.present_holder() for member in self.members])
        for found in outcomes:
            if not isinstance(found, InterlockError) and found[1] is not None:
                return found[0], found[1]
        return self.members[0], None

    def breaking(  # pyright: ignore[reportIncompatibleVariableOverride]
        self, holder: str | None = None, reason: str = ""
    ) -> Op[bool]:
        """Free every member that can be reached, whoever holds it; return whether any was locked."""
        if holder is not None:
            raise ConfigError(f"{self.kind} has no holder id: break the holds of its members")
        del reason
        outcomes = yield from self._enough([member.breaking() for member in self.members])
        return any(outcome is True for outcome in outcomes)


def _sort_key(member: Lock) -> tuple[str, str, str]:
    return member.session.outside.database, member.key, member.kind


def _first_try(step: Acquire) -> Eval[Any]:
    """Begin *step*; return its first command, which nothing goes before.

    What this client has left at the lock may refuse it, and does not slow it.
    """
    call, hold = step.begin(), step.hold
    assert hold is not None
    if call is None:
        hold.ask(hold.lock.session.clock())
        call = hold.lock.confirmed(hold.lock.call(hold, hold.lease, 1), hold)
    return call


def _outcome(step: Acquire, call: Eval[Any], reply: Any) -> object:
    """Return whether *step* has acquired by the *reply* to its *call*, or an error; else give it up."""
    outcome: object = reply
    if reply is LATE:
        outcome = ServerUnavailableError("enough others came before", sent=True)
    elif not isinstance(reply, Exception):
        try:
            outcome = step.done(call.script.decode(reply))
        except InterlockError as error:
            outcome = error
    elif step.hold is not None and not getattr(reply, "sent", False):
        step.hold.asking = False
    if outcome is not True:
        step.give_up()
    return outcome


class AcquireAll(Acquire):
    """An acquire or re-entry of a composite lock."""

    __slots__ = ()
    hold: CompositeHold | None  # pyright: ignore[reportIncompatibleVariableOverride]
    _lock: Composite

    def _enter_again(self, found: Hold) -> None:
        """Note that it was entered: no server is asked."""
        del found
        self._again = True

    def done(self, answer: Any) -> bool:
        hold = self.result = self.hold
        assert hold is not None
        granted = [part.lock.granted(part, answer) for part in hold.parts]
        if not all(granted):
            return False
        hold.entries = [OPEN, self._entry]  # first: so each part is claimed
        told = self._lock.session.events.observed or not hold.renewed
        for part in hold.parts:
            part.entries = [OPEN, hold]
            if told or part.over is not None:
                note_entered(part)
        return True

    def rest(self, failure: Exception | None) -> Op[Hold | None]:
        """Go on with the members after the first try; or give a re-entry its lease."""
        hold, lock, lease = self.hold, self._lock, self._lease
        assert hold is not None
        if self._again:
            if lease is not None or not hold.renewed:
                yield from lock.extend_parts(hold, lease or lock.session.options.lease)
            if lease is None:
                for each in (hold, *hold.parts):
                    each.renewed = True
        elif (yield from lock.obtain(hold, self._deadline, failure)):
            lock.session.queues.forget(hold)
            hold.entries = [OPEN, self._entry]
        else:
            yield from lock.free(hold)
            self.give_up()
            return None
        if hold.over is not None:
            raise lost_error(hold)
        return hold


class ReleaseAll(Release):
    """A release of one entry of a composite hold; with the last one its parts are released."""

    __slots__ = ("_closed", "_parts", "_steps")
    hold: CompositeHold

    def begin(self) -> Eval[Any] | None:
        """Drop the entry, and with the last one those in the parts; return a script for all."""
        hold, lock = self.hold, self.hold.lock
        self._began = lock.session.clock()
        self._steps: list[tuple[Release, Eval[Any] | None]] = []  # the releases of single parts
        before = self._before = len(hold.entries)
        if hold.released or (before < LEAST and hold.over is not LOST):
            raise ended_error(hold)
        if self._entry is None:
            self._entry = hold.entries[-1] if before == LEAST else last_by_hand(hold.entries)
        self._closed = hold.leave(self._entry)
        if not self._closed:
            lock.session.watchdog.expire(hold, self._began)
            return None
        hold.leave_owner()
        parts = hold.parts
        call = lock.leave_all(hold, self._began)
        if call is None and hold.parts:
            parts = [part for part in parts if part.over is not ENDED and hold in part.entries]
            for step in [Release().of(part, hold) for part in parts]:
                self._steps.append((step, step.begin()))
        self._parts = parts  # those that it was an entry of
        return call

    def heard(self, reply: Any) -> None:
        """Do nothing: `done` reads the answers."""

    def done(self, answer: Any) -> bool:
        for part, found in zip(self.hold.parts, answer, strict=True):
            if found == FREED:
                part.lock.session.released(part)
            else:
                self._left(part, found)
        if not self._steps:
            self.hold.over = ENDED
        return not self._steps

    def _left(self, part: Hold, found: int) -> None:
        """Release *part* by itself; if nothing was *found* of it, it is lost."""
        step = Release().closed(part, self.hold, self._began)
        self._steps.append((step, step.call if found == LEFT_ALONE else None))

    def rest(self, failure: Exception | None) -> Op[None]:
        """Release the parts that are left, each by itself, all at once; judge what that came to."""
        hold, lock = self.hold, self.hold.lock
        if failure is not None:
            for part in hold.parts:
                self._left(part, LEFT_ALONE)
            if getattr(failure, "transient", False):
                # One script for all may have released them. So what is gone now is not lost.
                lock.session.resend()
        failures = yield from self._single_releases()
        if self._closed and sum(part.over is not LOST for part in self._parts) >= lock.needed:
            hold.over = ENDED
            if len(failures) > lock.spare:
                raise failures[0]
        elif self._closed or hold.over is not None:
            if any(part.over is LOST for part in hold.parts):
                raise hold.lose()
            if self._closed:
                hold.over = ENDED
            raise ended_error(hold)

    def _single_releases(self) -> Op[list[InterlockError]]:
        """Release parts one by one; return the errors of those that the background goes on to release."""
        ops = [(step.hold.lock.session, begun(step, call)) for step, call in self._steps]
        # What is late is released later, by the garbage or its lease: so a short lease makes no hurry.
        lock, failures = self.hold.lock, list[InterlockError]()
        outcomes = yield from at_once(ops, lock.patience(), lock.spare)
        for (step, _), outcome in zip(self._steps, outcomes, strict=True):
            if isinstance(outcome, InterlockError) and not isinstance(outcome, HoldLostError):
                step.give_up()
                failures.append(outcome)
        return failures


class ExtendAll(Extend):
    """Keep a composite hold for at least so many seconds."""

    __slots__ = ()
    _hold: CompositeHold

    def rest(self, failure: Exception | None) -> Op[None]:
        del failure
        hold = self._hold
        yield from hold.lock.extend_parts(hold, self._lease)
        hold.lease = max(hold.lease, self._lease)


Composite.acquiring, Composite.releasing, Composite.extending = AcquireAll, ReleaseAll, ExtendAll
