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

import weakref
from typing import TYPE_CHECKING, Any, ClassVar

from interlock._core.locks.base import Acquire, Lock, let_go, note_entered
from interlock._core.locks.errors import ended_error, lost_error
from interlock._core.locks.release import Extend, Release, depth_of, last_by_hand
from interlock._core.locks.together import at_once
from interlock._core.model.effects import GRACE, Wait, begun, performed
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
    from interlock._core.upkeep.session import Session
    from interlock.errors import LossReason

LOOK = 0.1
"""Seconds between two looks of a release whether the background has carried it through."""
PAST = 0.0
"""The deadline of one try."""
FAILURES = ServerUnavailableError, WrongTypeError, HoldLostError, ReplicationError
"""Errors that concern one server, or the hold there."""


class _Acquiring:
    """Lives as long as the operation that acquires."""

    __slots__ = ("__weakref__",)


def _of_parts(read: Callable[[CompositeHold], object]) -> Any:
    """Return a property that follows from the parts; what `Hold.of` would write is ignored."""
    return property(read, lambda _hold, _value: None)


class CompositeHold(Hold):
    """A hold of several members.

    Attributes:
        parts: what it is made of; some of them may have ended.
        steps: the acquires of its parts while it is acquired. They keep its owner alive.
        listener: stands in a line of this client for it, while it waits for messages.
    """

    __slots__ = ("_acquiring", "_over", "listener", "parts", "steps")
    parts: Sequence[Hold]  # pyright: ignore[reportIncompatibleVariableOverride]
    lock: Composite  # pyright: ignore[reportIncompatibleVariableOverride]
    steps: Sequence[Acquire]

    def made(self, lock: Composite, owner: Owner, lease: float, renewed: bool) -> CompositeHold:
        self.parts, self.steps = (), ()
        self.listener: Hold | None = None
        self._over: str | None = None
        self._acquiring: weakref.ref[_Acquiring] | None = None
        _ = self.of(lock, owner.reference, "", lease, renewed)
        return self

    def acquired_while(self) -> _Acquiring:
        """Return what the operation that acquires it keeps; without that it is nobody's yet."""
        acquiring = _Acquiring()
        self._acquiring = weakref.ref(acquiring)
        return acquiring

    def _living(self) -> list[Hold]:
        return [part for part in self.parts if part.over is None and self in part.entries]

    # What other holds keep: most of it is known by the parts.

    @_of_parts
    def packed(self) -> str:
        """The ids of all parts, as arguments of one command."""
        return "".join([part.packed for part in self.parts])

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
        """Whether it is over, whatever its parts are."""
        return self._over is ENDED

    @_of_parts
    def valid_until(self) -> float:
        """The time until which enough parts are valid; 0 if too few are left."""
        ends = sorted([part.valid_until for part in self._living()], reverse=True)
        return ends[self.lock.needed - 1] if len(ends) >= self.lock.needed else 0.0

    @_of_parts
    def reason(self) -> LossReason | None:
        """Why a part was lost: released by force, if one is known to be."""
        reasons: list[LossReason] = [part.reason for part in self.parts if part.reason is not None]
        if "force-released" in reasons:
            return "force-released"
        return next(iter(reasons), None)

    @_of_parts
    def detail(self) -> str:
        """What is known besides of that."""
        reason = self.reason
        known = [part.detail for part in self.parts if part.detail and part.reason == reason]
        return next(iter(known), "")

    @property
    def holder(self) -> str:
        """The id of its first part."""
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
        """Return whether it is held, or has ended, and a part is left to be released."""
        left = self._over is LOST or any(part.owned() for part in self.parts)
        return left and bool(self.entries) and self._over is not ENDED

    def claimed(self) -> bool:
        """Return whether somebody is left who can release it, or still acquires it."""
        acquiring = self._acquiring
        return (acquiring is not None and acquiring() is not None) or super().claimed()

    def listen(self, callback: Callable[[], object]) -> bool:
        """Call *callback* once when it is lost; return False if it is."""
        for part in self.parts:
            if part.listeners is None or self.tell not in part.listeners:
                _ = part.listen(self.tell)
        return super().listen(callback)

    def tell(self) -> None:
        """Call those who listen if it is lost: a part is, or its release has found out."""
        while self.over is LOST and self.listeners:
            try:
                listener = self.listeners.pop(0)
            except IndexError:  # another thread tells them, too
                return
            _ = listener()

    # How it ends.

    def unheard(self) -> None:
        """Have its parts call it no more: they may be held for longer."""
        if self.listeners is not None:
            for part in self.parts:
                part.unlisten(self.tell)

    def lose(self) -> HoldLostError:
        """Give back what is left of it, now that its owner hears of the loss; return that error."""
        error, reason = lost_error(self), self.reason
        for part in self.parts:
            if part.over is LOST and part.reason == reason:
                error.args = (f"{self.lock!r} was lost: {lost_error(part)}",)
                break
        self.give_back()
        self._over = LOST
        self.tell()
        return error

    def give_up_parts(self) -> None:
        """Take it out of its parts, and end those that nobody else has entered; no I/O."""
        self.stop_listening()
        self.give_back()
        self._over = self._over or ENDED

    def give_back(self) -> None:
        """End all parts, also those of a try in vain; no I/O, and repeatable."""
        for step in self.steps:
            step.give_up()
        self.unheard()
        for part in self.parts:
            if part.leave(self) or not part.entries:
                part.lock.session.give_up(part)
                part.leave_owner()

    def stop_listening(self) -> None:
        """Leave the line in which it waits; who stands there next looks if this one was to."""
        listener = self.listener
        if listener is not None:
            listener.over = ENDED
            listener.lock.session.queues.forget(listener)
            self.listener = None


class Composite(Lock):
    """Several locks as one; their clients are in one process and share a clock.

    Args:
        members: the locks.
        needed: how many of them make a hold.

    Attributes:
        members: the locks, in the order in which they are taken.
        needed, spare: how many make a hold, and how many may be missing.

    Raises:
        ConfigError: there are no members, or one of them is given twice.
    """

    acquiring: ClassVar[Any]
    members: Sequence[Lock]

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

    def excludes(self, hold: Any) -> bool:
        if self.spare:
            return super().excludes(hold)
        return any(member.excludes(hold) for member in self.members)

    def new_hold(self, owner: Owner, lease: float | None) -> CompositeHold:
        lasts = self.session.options.lease if lease is None else lease
        return CompositeHold().made(self, owner, lasts, lease is None)

    def patience(self, lease: float | None = None) -> float | None:
        """Return how many seconds each answer may take; None: until an outage is over."""
        del lease
        return None

    def unavailable(self, failures: dict[str, InterlockError]) -> InterlockError:
        """Return the error for too few available members; *failures* says why, by member."""
        return next(iter(failures.values()))

    def obtain(
        self, hold: CompositeHold, deadline: float, failure: Exception | None, *, tried: bool
    ) -> Op[bool]:
        """Acquire *hold*; return whether it is held.

        If its parts were *tried*, all by one script, that was refused, or ended with *failure*.
        """
        raise NotImplementedError

    # Acquire.

    def first(self, hold: Any, deadline: float) -> Eval[Any] | None:
        """Return the script that takes all parts, if there is one; they are known then."""
        del hold, deadline
        return None

    def ask_all(self, hold: CompositeHold, needed: int | None = None) -> Op[list[Any]]:
        """Try to acquire all parts at once; return for each its hold, None or an error.

        With *needed*, so many grants decide, and the others need not come.
        """
        owner: Any = hold.owner()  # which acquires just now
        seconds, lease = self.patience(hold.lease), None if hold.renewed else hold.lease
        hold.steps = [Acquire().of(each, owner, PAST, lease, hold) for each in self.members]
        calls = [step.begin() for step in hold.steps]
        ops: list[tuple[Session, Op[Any]]] = []
        for member, step, begun_with in zip(self.members, hold.steps, calls, strict=True):
            part, call = step.hold, begun_with
            if call is None and seconds is not None and part is not None:
                # It is not slowed by what this client has left there; that may refuse it.
                part.ask(self.session.clock())
                call = member.confirmed(member.call(part, part.lease, 1), part)
            ops.append((member.session, begun(step, call)))
        outcomes = yield from at_once(ops, seconds, needed)
        for step, outcome in zip(hold.steps, outcomes, strict=True):
            if step.hold is not None and not getattr(outcome, "sent", True):
                step.hold.asking = False
        return outcomes

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
        hold.parts = granted
        hold.steps = ()
        return True

    def free(self, hold: CompositeHold) -> Op[None]:
        """Release what the last try for *hold* has left, or soon leave that to the background."""
        parts = [step.hold for step in hold.steps if step.hold is not None]
        left = [part for part in parts if part in part.lock.session.garbage.dead]
        if left:
            yield from at_once([(part.lock.session, let_go(part)) for part in left], GRACE)

    # What is done with a hold.

    def leave_all(
        self, hold: CompositeHold, began: float
    ) -> tuple[Sequence[Hold], Eval[list[int]] | None] | None:
        """Close all parts of *hold*, if one script releases them; return what they were, and it."""
        del hold, began
        return None

    def enter_again(self, hold: CompositeHold, lease: float | None) -> Op[None]:
        """Have *hold*, which was entered again, last for *lease* seconds, or be renewed."""
        if lease is None and hold.renewed:
            return
        yield from self.extend_parts(hold, self.session.options.lease if lease is None else lease)
        if lease is None:
            for part in hold.parts:
                part.renewed = True
            hold.renewed = True

    def extend_parts(self, hold: CompositeHold, lease: float) -> Op[None]:
        """Keep enough parts of *hold* for at least *lease* seconds."""
        parts = [part for part in hold.parts if part.over is None]
        ops = [(part.lock.session, performed(Extend(part, lease))) for part in parts]
        outcomes = yield from at_once(ops, self.patience(lease))
        failures = [outcome for outcome in outcomes if isinstance(outcome, InterlockError)]
        if hold.over is LOST:
            raise hold.lose()
        if len(outcomes) - len(failures) < self.needed:
            raise failures[0] if failures else ended_error(hold)

    def _all(self, ops: Sequence[Op[Any]]) -> Op[list[Any]]:
        asked = [(member.session, op) for member, op in zip(self.members, ops, strict=True)]
        return at_once(asked, self.patience())

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
        if len(remaining) <= self.spare:
            if len(remaining) + len(failures) > self.spare:
                raise self.unavailable(failures)
            return LockStatus(None, {})
        return LockStatus(sorted(remaining, reverse=True)[self.spare], {})

    def depth_of(self, hold: Hold) -> Op[int]:
        """Return how deep *hold* is, if enough servers have their parts; else 0.

        A part whose server cannot be reached counts as long as it is valid.
        """
        owner = hold.owner()
        if owner is None:
            return 0
        yield from self._enough([depth_of(member, owner) for member in self.members])
        return hold.depth if hold.valid(self.session.clock()) else 0

    def present_holder(self) -> Op[tuple[Lock, str | None]]:
        """Return a member that is held, and who holds it; by another client, if there is such a one."""
        outcomes = yield from self._all([member.present_holder() for member in self.members])
        found: list[tuple[Lock, str | None]] = [
            each for each in outcomes if not isinstance(each, InterlockError)
        ]
        held = [(lock, holder) for lock, holder in found if holder is not None]
        foreign = [each for each in held if not each[0].session.events.held_by(each[1])]
        return next(iter([*foreign, *held]), (self.members[0], None))

    def break_members(self, holder: str | None = None, reason: str = "") -> Op[bool]:
        """Free every member, whoever holds it; return whether any was locked.

        Raises:
            ConfigError: there is a *holder*: it has no ids.
            InterlockError: more members than are spare could not be reached. The others were freed.
        """
        if holder is not None:
            raise ConfigError(f"{self.kind} has no holder id: break the holds of its members")
        del reason
        outcomes = yield from self._enough([member.breaking() for member in self.members])
        return any(outcome is True for outcome in outcomes)


def _sort_key(member: Lock) -> tuple[str, str, str]:
    return member.session.outside.database, member.key, member.kind


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
        hold, lock = self.hold, self._lock
        assert hold is not None
        if self._again:
            yield from lock.enter_again(hold, self._lease)
            if hold.over is not None:
                raise lost_error(hold)
            return hold
        acquiring = hold.acquired_while()
        held = yield from lock.obtain(hold, self._deadline, failure, tried=bool(hold.parts))
        if held:
            hold.stop_listening()
            hold.entries = [OPEN, self._entry]
            if hold.over is not None:
                raise lost_error(hold)
        else:
            yield from lock.free(hold)
            self.give_up()
        del acquiring  # not earlier: a round might find parts that nobody has entered
        return hold if held else None


class ReleaseAll(Release):
    """A release of one entry of a composite hold; with the last one its parts are released."""

    __slots__ = ("_closed", "_parts", "_unsent")
    hold: CompositeHold

    def begin(self) -> Eval[Any] | None:
        """Drop the entry, and with the last one those in the parts; return a script for all."""
        hold, lock = self.hold, self.hold.lock
        self._parts: Sequence[Hold] = ()
        self._unsent: list[tuple[Release, Eval[Any] | None]] = []
        self._began = lock.session.clock()
        before = len(hold.entries)
        if hold.released or (before < LEAST and hold.over is not LOST):
            raise ended_error(hold)
        self._before = before
        if self._entry is None:
            self._entry = hold.entries[-1] if before == LEAST else last_by_hand(hold.entries)
        self._closed = hold.leave(self._entry)
        if not self._closed:
            lock.session.watchdog.expire(hold, self._began)
            return None
        hold.leave_owner()
        hold.unheard()
        together = lock.leave_all(hold, self._began)
        if together is not None:
            self._parts, call = together
            return call
        self._parts = [
            part for part in hold.parts if part.over is not ENDED and hold in part.entries
        ]
        calls = [
            (step, step.begin()) for step in [Release().of(part, hold) for part in self._parts]
        ]
        self._unsent = [each for each in calls if each[0].hold.over is None]
        return None

    def heard(self, reply: Any) -> None:
        """Do nothing: `done` reads the answers."""

    def done(self, answer: Any) -> bool:
        for part, found in zip(self.hold.parts, answer, strict=True):
            if found == FREED:
                part.lock.session.released(part)
            else:
                self._left(part, found)
        if not self._unsent:
            self.hold.over = ENDED
        return not self._unsent

    def _left(self, part: Hold, found: int) -> None:
        """Release *part* by itself; if nothing was *found* of it, it is lost."""
        step = Release().closed(part, self.hold, self._began)
        self._unsent.append((step, step.call if found == LEFT_ALONE else None))

    def rest(self, failure: Exception | None) -> Op[None]:
        """Release the parts that are left, each by itself, all at once; judge what that came to."""
        hold, lock = self.hold, self.hold.lock
        if failure is not None:
            for part in hold.parts:
                self._left(part, LEFT_ALONE)
            if getattr(failure, "transient", False):
                # One script for all may have released them. So what is gone now is not lost.
                lock.session.resend()
        if not self._closed:
            if (over := hold.over) is not None:
                raise hold.lose() if over is LOST else ended_error(hold)
            return
        ops = [(each.hold.lock.session, begun(each, call)) for each, call in self._unsent]
        # What is late is released later, by the garbage or its lease: so a short lease makes no hurry.
        outcomes = yield from at_once(ops, lock.patience())
        unreached = dict[Hold, InterlockError]()
        for (release, _), outcome in zip(self._unsent, outcomes, strict=True):
            if isinstance(outcome, InterlockError) and not isinstance(outcome, HoldLostError):
                release.give_up()
                unreached[release.hold] = outcome
        if sum(part.over is not LOST for part in self._parts) < lock.needed:
            if any(part.over is LOST for part in hold.parts):
                raise hold.lose()
            hold.over = ENDED
            raise ended_error(hold)
        hold.over = ENDED
        yield from self._outlast(unreached)

    def _outlast(self, unreached: dict[Hold, InterlockError]) -> Op[None]:
        """Wait until the parts in *unreached* keep nobody out any more; raise if that takes too long.

        The background goes on to release them.
        """
        session, spare = self.hold.lock.session, self.hold.lock.spare
        if len(unreached) <= spare:
            return
        ends = max(part.valid_until for part in unreached)
        lasting = any(not getattr(each, "transient", False) for each in unreached.values())
        if lasting or ends > self._began + session.options.outage_timeout:
            raise next(iter(unreached.values()))
        while session.clock() < ends and spare < sum(
            part in part.lock.session.garbage.dead for part in unreached
        ):
            yield Wait(None, min(ends, session.clock() + LOOK))

    def give_up(self) -> None:
        """Carry it through without the caller."""
        hold, entry = self.hold, self._entry
        if entry is None and self._before > 1 and len(hold.entries) >= self._before:
            entry = last_by_hand(hold.entries)
        if (hold.leave(entry) or not hold.entries) and not hold.released:
            hold.lock.session.give_up(hold)


class ExtendAll(Extend):
    """Keep a composite hold for at least so many seconds."""

    __slots__ = ()
    _hold: CompositeHold

    def begin(self) -> None:
        """Look whether it is held; each part has a renewal of its own."""
        if (over := self._hold.over) is LOST:
            raise self._hold.lose()
        if over is ENDED or not self._hold.entries:
            raise ended_error(self._hold)

    def rest(self, failure: Exception | None) -> Op[None]:
        """Extend the parts, all at once."""
        del failure
        hold = self._hold
        yield from hold.lock.extend_parts(hold, self._lease)
        hold.lease = max(hold.lease, self._lease)


Composite.acquiring, Composite.releasing, Composite.extending = AcquireAll, ReleaseAll, ExtendAll
Composite.breaking = Composite.break_members
