"""The algorithm of every lock.

Acquire, re-enter, release, extend, and the undo of each.

Begin with `Acquire`, `Reenter`, which goes one deeper, `Release` and `Extend`: the operations.
`LockBase`, below them, has their parts. The functions at the end do what is left when an operation
ends. `KnownLock`, in a file of its own, asks the server and frees a lock by force.

Theory. Redisson's acquire adds one to a count, so a script that is sent twice counts twice. Ours
tells the script which depth to reach. So an acquire or release may be repeated any number of times.
The undo of an interrupted acquire is the release to the former depth. It changes nothing if the
acquire was not executed.

If no reply to a try comes, another connection sends the try again. The server may still execute the
first one: at once, when it resumes after a pause, or when the network delivers it. By then the lock
may have been acquired by the second try, and released. The late try then makes us the holder, and
we do not know it. So a hold counts such *late grants*. When the hold ends, the background repeats
the release until it has found as many, or for one lease (`cleanup`).

Four counts say "may still be executed":

* `Hold.unanswered`: tries of this hold without a reply.
* `Hold.late_grants()`: the same, plus a pending offer, plus a place in a fair lock's queue.
* `Eval.unknown`: how often one call was sent without a reply.
* `Cleanup.late`: how many late grants the repeated release must find.

Rules:

* A hold is in the table before anything is sent for it. So after any interruption it is found
  there, and undone.
* A late command must not hit a later hold of the same owner. So the owner draws a new number
  wherever an acquire or a last release may still be under way (`renumber_owner`).
* Only a command that may take the lock counts as a late grant. Late re-entries, renewals and
  releases change nothing: they name a holder that is gone, and a re-entry cannot take a free lock.
* If a user's call cannot bring a release to the server in time, the background does that
  (`Session.clean_up`).

A kind of lock supplies its scripts and its channel, and overrides what it does differently.
`lock.py` is the plainest kind.

Source: RLock, Redisson 4.7.0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from copy import copy
from typing import TYPE_CHECKING, NoReturn, Self

from interlock._core.insight.events import tell_loss
from interlock._core.insight.forced_note import ask_why
from interlock._core.locks.doubt import end_doubt
from interlock._core.locks.kept_commands import KeptCommands
from interlock._core.locks.known_lock import KnownLock, not_held
from interlock._core.model.effects import (
    NEVER,
    PAST,
    Carried,
    Step,
    Undone,
    Wait,
    failing,
    undoing,
)
from interlock._core.model.holds import ENDED, ENDING, HELD, LOST, PENDING, UNASKED, Hold, Owner
from interlock._core.model.replication import Replication
from interlock._core.queue.grant_looks import GIVEN
from interlock._core.queue.waiting import (
    NO_TURN,
    QUEUE_KEPT,
    Turn,
    leave_queue,
    may_try_first,
    wait_in_queue,
)
from interlock._core.scripts.lock import lock_release
from interlock._core.scripts.script import Grant, Refusal, stand_in_queue
from interlock._core.upkeep.session import GRACE
from interlock.errors import (
    ClosedError,
    HoldLostError,
    InterlockError,
    ReentryError,
    ServerUnavailableError,
)
from interlock.options import check_lease

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval, Op
    from interlock._core.queue.lines import Line
    from interlock._core.queue.places import Place
    from interlock._core.upkeep.session import Session
    from interlock.options import ReplicaPolicy


class Acquire(Undone["Hold | None"]):
    """An acquire or re-entry by *owner*, as `LockBase.acquire` describes it."""

    __slots__ = (
        "again", "deadline", "lease", "lock", "outcome", "owner", "result", "sent_at", "stands"
    )  # fmt: skip
    of_owner = True
    lock: LockBase
    owner: Owner
    deadline: float
    lease: float | None
    outcome: Grant | float | None
    again: Reenter | Step[Hold | None] | None
    sent_at: float
    stands: int
    result: Hold | None

    def begin(self) -> Eval[Grant | float] | None:
        """Reserve a hold; return the first try, unless others wait here."""
        lock, owner = self.lock, self.owner
        session = lock.session
        table, key = session.holds.table, (lock.hold_key, owner.identity)
        held = table.get(key) if key in table else None
        while True:
            if held is not None and lock.is_live(held):
                again = self.again = Reenter(lock, held, self.deadline, self.lease)
                self.result = held
                if (entering := again.begin()) is not None:
                    return entering
                # Another thread has released it since the look.
                self.again = self.result = None
                held = table.get(key)
                continue
            if not owner.alone_in:
                owner.refuse_vain_wait(lock, self.deadline)
            number = owner.number
            hold = self.result = lock.new_hold(owner, self.lease)
            found = session.holds.reserve(hold, held)
            if found is hold:
                if owner.number != number:
                    lock.name_anew(hold, owner)
                break
            # A signal handler was faster.
            self.result, held = None, found
        clock = session.clock  # bound first: else Python 3.11 looks for a method
        now = self.sent_at = clock()
        if lock.line in session.waiters.queues and not lock.may_try_first(hold, self.deadline):
            hold.uncount_try()
            return None
        call = lock.request(hold, self.deadline, now)
        self.stands = call.spare_args
        return call

    def done(self, answer: Grant | float) -> bool:
        """Take the server's answer; return whether the lock is held now."""
        if self.again is not None:
            return self.again.done(answer)
        hold = self.result
        assert hold is not None
        if self.lock.accept(hold, self.sent_at, answer):
            if self.stands:
                self._gave_up_place()
            return True
        self.outcome = answer
        return False

    def rest(self, failure: BaseException | None) -> Op[Hold | None]:
        """Wait for the lock, or undo what *failure* has left."""
        if self.again is not None:
            return self.again.rest(failure)
        hold = self.result
        if hold is None:
            return failing(failure)
        if failure is not None and hold.entered_again():
            # Other threads of the same owner have entered it meanwhile, and keep it.
            self.lock.session.events.end_wait(hold, failure)
            again = self.again = Reenter(self.lock, hold, self.deadline, self.lease)
            again.entered = again.granted = True
            return again.rest(failure)
        outcome = self.outcome if failure is None else failure
        return self.lock.go_on(hold, self.deadline, self.sent_at, outcome)

    def over(self) -> bool:
        """Return whether no hold is reserved, and no wait is noted."""
        if self.again is not None:
            return self.again.over()
        hold = self.result
        # A wait that a Ctrl-C has left in the table would be shown to operators for ever.
        return hold is None or (hold.settled() and hold not in self.lock.session.events.waits)

    def _gave_up_place(self) -> None:
        """Note that the grant has taken the client out of the server's queue.

        Another thread may have been refused before, and may be about to wait. It must ask again.
        """
        waiters, line = self.lock.session.waiters, self.lock.line
        place = waiters.places.get(line)
        if place is not None:
            place.granted()
            if not place.others_wait:
                waiters.freed(line, ours=True)

    def abandon(self) -> None:
        """Remove the hold if it is still PENDING."""
        if self.result is not None:
            self.lock.session.holds.unreserve(self.result)


class Reenter(Undone[Hold]):
    """A re-entry of *hold*; arguments and errors as for `LockBase.acquire`."""

    __slots__ = (
        "_call", "_deadline", "_lease", "_left", "_lock", "_sent_at", "_wanted", "entered",
        "granted", "result",
    )  # fmt: skip

    def __init__(self, lock: LockBase, hold: Hold, deadline: float, lease: float | None) -> None:
        self._lock = lock
        self._deadline = deadline
        self._lease = lease
        self.entered = self.granted = False
        self._left: int | None = None
        self._call: Eval[Grant | float] | None = None
        self.result = hold

    def begin(self) -> Eval[Grant | float] | None:
        """Count the entry; return the script for the server, or None if the hold is over."""
        lock, hold = self._lock, self.result
        if not lock.reentrant:
            raise ReentryError(
                f"{lock.kind} {lock.name!r} is held by the same owner and is not reentrant",
                name=lock.name,
            )
        session, lease = lock.session, self._lease
        self._wanted = session.options.lease if lease is None else check_lease(lease)
        clock = session.clock  # bound first: else Python 3.11 looks for a method
        now = self._sent_at = clock()
        # Count at once: another thread that releases this hold meanwhile starts from here.
        depth = hold.enter()
        if depth is None:
            return None
        self.entered = True
        deadline = self._deadline  # `answer_by` inlined
        by = deadline if deadline > now else now + GRACE
        call = self._call = lock.entry_script(hold, self._wanted, depth, by)
        return call

    def done(self, answer: Grant | float) -> bool:
        """Take the server's answer; return whether the re-entry has succeeded."""
        if not isinstance(answer, Grant):
            return False
        lock, hold = self._lock, self.result
        self.granted = True
        session = lock.session
        clock = session.clock
        hold.extend_validity(self._sent_at, self._wanted)
        if not hold.valid(clock()):
            # The answer took longer than the lease: somebody else may hold it by now. Or other
            # threads of the same owner have released all its entries, this one too.
            return False
        if self._lease is None:
            hold.keep_renewed(lock.kept_renewal)
        session.watchdog.watch(hold)
        return True

    def rest(self, failure: BaseException | None) -> Op[Hold]:
        """Ask again, undo what *failure* has left, or raise that the hold is lost."""
        if not self.entered:
            return failing(failure)
        return undoing(self._go_on(failure), self._undo)

    def over(self) -> bool:
        """Return whether no entry is left to undo."""
        return not self.entered

    def _go_on(self, failure: BaseException | None) -> Op[Hold]:
        hold, session = self.result, self._lock.session
        if failure is not None:
            call = None if self.granted else self._call
            if call is None or not isinstance(failure, ServerUnavailableError):
                raise failure
            if self.done((yield from session.again(call.anew(), failure))):
                return hold
        if hold.state in (ENDING, ENDED):
            raise not_held(hold.core.kind, hold.name, hold.label)
        _ = hold.leave()
        known = hold.state is LOST
        tell = session.begin_loss(hold, hold.gone_reason(session.clock()))
        try:
            if not known and hold.reason == "server lost it":
                yield from ask_why(session, hold)
        finally:
            tell()
        raise lost(hold)

    def _undo(self, error: BaseException) -> Op[None]:
        hold = self.result
        if hold.state is LOST or (self._left is None and hold.state is not HELD):
            # No entry is left. A release could hit a later hold of the same owner.
            self.entered = False
            return
        if self._left is None:
            # Other threads may have released all other entries. Then this undoes the last one.
            # `begin_release` is called once. A repeated undo, after a Ctrl-C, uses the same depth.
            self._left = (hold.begin_release() or (0, False))[0]
        depth = self._left
        unsent = not self.granted and isinstance(error, InterlockError) and not error.sent
        if not (depth and unsent):
            session = self._lock.session
            yield from bring_down(session, hold, depth, hold.valid_until, error)
            if depth == 0:
                session.holds.released(hold)
        self.entered = False


class Release(Carried[None]):
    """A release of *hold* by one depth; at 0 the lock is free.

    Cost and errors as for `LockBase.release`.
    """

    __slots__ = (
        "_begun", "_call", "_depth", "_found", "_given_up", "_hold", "_resumed", "_session"
    )  # fmt: skip
    of_owner = True
    result = None
    _call: Eval[int] | None
    _begun: float | None

    def of(self, session: Session, hold: Hold) -> Self:
        """Begin with *hold*; return this step.

        This is not ``__init__``, because a call of that costs as much as the object.
        """
        self._session = session
        self._hold = hold
        self._begun, self._given_up = None, False
        return self

    def begin(self) -> Eval[int] | None:
        """Note that the hold goes down by one depth; return the release, or None if it is lost."""
        hold = self._hold
        core, clock = hold.core, self._session.clock
        now = clock()
        begun = hold.begin_release(now)
        if begun is None:
            if hold.lost(now):
                return None
            raise not_held(core.kind, hold.name, hold.label)
        depth, first = begun
        self._depth, self._found, self._call = depth, 0, None
        # A release that was begun before may have been executed, even if its caller was not told.
        self._resumed = not first
        self._begun = now
        if hold.valid_until < now + self._session.options.command_timeout and not hold.asked_by:
            # Nobody waits for an answer beyond the lease.
            call = self._call = core.release_script(hold, depth)
            call.deadline = hold.valid_until
            return call
        call = self._call = core.kept_release(hold, depth)
        return call

    def resume(self, depth: int, first: bool) -> Eval[int]:
        """Go on from `Hold.begin_release`, which told *depth* and *first*; return the release."""
        hold, self._depth, self._found = self._hold, depth, 0
        self._resumed, self._begun = not first, PAST
        core = hold.core
        call = self._call = core.kept_release(hold, depth)
        return call

    def done(self, answer: int) -> bool:
        """Take the server's answer; return whether the release is complete."""
        self._found = answer
        hold = self._hold
        if not answer or hold.unanswered:
            return False
        if self._depth == 0:
            self._session.holds.released(hold)
            if answer == GIVEN:
                self._session.looks.released(hold.core, self._session.clock())
        return True

    def begun(self) -> bool:
        """Return whether the hold goes down."""
        return self._begun is not None

    def carry_on(self, failure: BaseException | None) -> Op[None]:
        """Go on with the release after any *failure*; a lost hold is forgotten."""
        if self._begun is None:
            try:
                _ = self.begin()
            except Exception as error:  # noqa: BLE001 - the returned operation raises it
                return failing(failure or error)
        if self._begun is None:
            return _end_lost(self._session, self._hold)
        return self.finish(failure)

    def finish(self, failure: BaseException | None) -> Op[None]:
        """Complete a release whose first try was answered, or ended by *failure*.

        If the hold was valid when it began, its work is done: nothing is a loss that is heard after
        the validity.
        """
        hold, depth, found = self._hold, self._depth, self._found
        session, in_time = self._session, (self._begun or PAST) < self._hold.valid_until
        call = (
            self._call.anew() if self._call is not None else hold.core.release_script(hold, depth)
        )
        if failure is not None:
            again = yield from self._repeat(call, failure, in_time=in_time)
            if again is None:
                session.holds.released(hold)
                return
            found = again
        # Another thread may have released the last depth meanwhile.
        freed = depth > 0 and (hold.state is ENDING or hold.state is ENDED)
        late = in_time and session.clock() >= hold.valid_until
        gone = not (found or late or self._resumed or freed or call.unknown)
        if depth == 0 and (call.unknown or hold.unanswered):
            renumber_owner(hold)  # an earlier try may still be under way
        if gone:
            yield from _end_gone(session, hold)
        self._found = found
        if depth == 0:
            session.holds.released(hold)
            if found == GIVEN:
                session.looks.released(hold.core, session.clock())
            yield from end_late_grants(session, hold)

    def _repeat(self, call: Eval[int], failure: BaseException, *, in_time: bool) -> Op[int | None]:
        """Send *call* again after *failure*; return the answer, None if the lease ends without one.

        None also needs that the release began *in_time*.
        """
        hold, depth, session = self._hold, self._depth, self._session
        # A composite lock may have set an earlier deadline.
        outage_end = session.clock() + session.options.outage_timeout
        over_by = hold.over_by(session.clock())
        call.deadline = min(call.deadline, over_by, outage_end)
        try:
            return (
                yield from undoing(
                    session.again(call, failure), _finish_later, session, hold, depth
                )
            )
        except InterlockError as error:
            self._given_up = True  # the background does the rest
            if not isinstance(error, ServerUnavailableError):
                raise
            if depth:
                # It stays held at the lower depth, and the background tells the server. If this
                # raised, the caller could not know how many releases are still to come.
                return 1
            if not (in_time and error.transient and over_by <= outage_end):
                raise unreleased(hold, error) from error.__cause__
        yield from Wait(None, over_by)
        return None

    def over(self) -> bool:
        """Return whether the release is over."""
        state = self._hold.state
        over = state is ENDED or state is LOST or self._given_up
        return over or (self._begun is not None and self._depth > 0)


class DelayingRelease(Release):
    """A release before something else, which ends at *deadline*.

    One try has the time of a full round trip. The background does what is not done by then.
    """

    __slots__ = ("_deadline",)

    def __init__(self, session: Session, hold: Hold, deadline: float) -> None:
        self._deadline = deadline
        _ = self.of(session, hold)

    def begin(self) -> Eval[int] | None:
        """Begin as `Release` does."""
        if super().begin() is None:
            return None
        hold = self._hold
        call = self._call = hold.core.release_script(hold, self._depth)
        call.deadline = LockBase.answer_by(self._deadline, self._session.clock())
        call.patient = True  # a full round trip, as for a single try
        return call


class Extend(Step[None]):
    """An extension of *hold*, which is of *lock*, to at least *lease* seconds from now.

    Arguments, cost and errors as for `Holdable.extend_hold`.
    """

    __slots__ = ("answer", "call", "hold", "lease", "lock", "sent_at")
    result = None
    lock: Holdable
    hold: Hold
    lease: float
    call: Eval[list[bool]] | None
    answer: list[bool]
    sent_at: float

    def begin(self) -> Eval[list[bool]] | None:
        """Return the script, unless something comes first."""
        hold, clock = self.hold, self.lock.session.clock
        self.lease = check_lease(self.lease)
        now = clock()
        if hold.state is HELD and now < hold.valid_until and hold.cut_at != NEVER:
            return self._send(now)
        return None

    def _send(self, now: float) -> Eval[list[bool]]:
        """Return the script, which is sent *now*.

        The encoded command is kept for an owner that extends again and again.
        """
        hold, lock, lease = self.hold, self.lock, self.lease
        kept = lock.kept_extension
        if kept is None or kept[0] != hold.holder or kept[1] != lease:
            first = hold.core.renewal([hold.key], lease, [hold.holder], deadline=NEVER)
            kept = lock.kept_extension = hold.holder, lease, first
        call = self.call = kept[2].anew()
        outage_end, until = now + lock.session.options.outage_timeout, hold.valid_until
        call.deadline = min(until, outage_end)
        self.sent_at = now
        return call

    def done(self, answer: list[bool]) -> bool:
        """Take the server's answer; return whether *hold* is held for that long."""
        self.answer, hold, session = answer, self.hold, self.lock.session
        if not answer[0]:
            return False
        hold.extend_validity(self.sent_at, self.lease)
        clock = session.clock
        now = clock()
        if (hold.state is not HELD or now >= hold.valid_until) and hold.lost(now):
            # The answer took longer than the lease: somebody else may hold it by now.
            return False
        session.watchdog.watch(hold)
        return True

    def rest(self, failure: BaseException | None) -> Op[None]:
        """Ask again after *failure*, ask at all, or raise that the hold is lost."""
        unasked = self.call is None or not isinstance(failure, ServerUnavailableError)
        return failing(failure) if failure is not None and unasked else self._go_on(failure)

    def over(self) -> bool:
        """Return True: there is nothing to undo."""
        return True

    def _go_on(self, failure: BaseException | None) -> Op[None]:
        hold, session, call = self.hold, self.lock.session, self.call
        if call is not None and failure is not None:
            asking = session.again(call, failure)
        else:
            if call is not None:
                yield from self._end()
            if hold.lost(session.clock()):
                yield from _end_lost(session, hold)
            yield from end_doubt(session, hold)
            asking = session.persist(self._send(session.clock()))
        if not self.done((yield from asking)):
            yield from self._end()

    def _end(self) -> Op[NoReturn]:
        """End the hold, which the server does not have or which is over; raise HoldLostError."""
        end = _end_lost if self.answer[0] else _end_gone
        return end(self.lock.session, self.hold)


class Refused(Step[None]):
    """An operation that cannot begin, because of *error*."""

    __slots__ = ("_error",)

    def __init__(self, error: InterlockError) -> None:
        self._error: InterlockError | None = error

    def rest(self, failure: BaseException | None) -> Op[None]:
        """Raise it."""
        # Not kept: otherwise the error and the user's frames keep each other alive.
        error, self._error = self._error, None
        return failing(failure or error)

    def over(self) -> bool:
        return True


class Holdable(ABC):
    """What a hold may be of: a lock, permits, or a wait."""

    kind: str
    name: str
    session: Session
    kept_extension: tuple[str, float, Eval[list[bool]]] | None = None
    """The last extension: whose it was, how long, and the encoded command."""

    @abstractmethod
    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        """Return the script that takes *hold* down to *depth*; permits and waits have no depths."""
        ...

    def kept_release(self, hold: Hold, depth: int) -> Eval[int]:
        """Return the script that takes *hold* down to *depth*. It is shared: do not change it."""
        return self.release_script(hold, depth)

    def release_hold(self, hold: Hold) -> Release:
        """Go down by one depth in *hold*, no matter who asks; errors as for `LockBase.release`."""
        return Release().of(self.session, hold)

    def extend_hold(self, hold: Hold, lease: float) -> Step[None]:
        """Extend *hold* to at least *lease* seconds from now; nothing makes it shorter.

        Raises:
            NotHeldError: it was released.
            HoldLostError: it is lost.
            ServerUnavailableError: no usable answer.

        Cost:
            One round trip.
        """
        if hold.state is ENDED:
            return Refused(not_held(self.kind, self.name, hold.label))
        step = Extend()  # made without `__init__`, as in `LockBase.acquire`
        step.lock, step.hold, step.lease, step.call = self, hold, lease, None
        return step

    def accept(self, hold: Hold, sent_at: float, answer: Grant | float) -> bool:
        """Take *answer* to the try sent at *sent_at*; return whether *hold* is held now."""
        if type(answer) is not Grant:  # `isinstance` is a call
            if type(answer) is Refusal:
                hold.refused(sent_at, answer.at)
            else:
                hold.uncount_try()
            return False
        session = self.session
        clock = session.clock  # bound first: else Python 3.11 looks for a method
        if not hold.grant(answer.token, sent_at, clock()):
            return False
        session.watchdog.watch(hold)
        if session.holds.observer is not None:
            session.holds.observer.acquired(hold, sent_at)
        return True


class LockBase(Holdable, KnownLock):
    """One lock for one client, as its owners use it.

    Releases are announced on *channel*. Local waiters stand in *line*, most often named the
    same.
    """

    channel: str
    line: Line
    repeats: bool = False
    """Whether an owner sends the same commands for it each time."""
    repeats_for: tuple[float, ...] = (NEVER, PAST)
    """The deadlines for which the first try is the same. At PAST, a red lock limits the time."""

    def __init__(self, session: Session, name: str, *, reentrant: bool = True) -> None:
        super().__init__(session, name, reentrant=reentrant)
        self._kept: KeptCommands | None = None
        self._last_holder = ""
        self.kept_renewal = self.renewal  # Python 3.11 looks up an attribute of the class anew

    # What the faces call.

    def acquire(self, owner: Owner, deadline: float, lease: float | None) -> Step[Hold | None]:
        """Acquire for *owner*, waiting until *deadline*.

        Args:
            owner: who will hold it.
            deadline: on the session's clock; if it has passed, there is one try.
            lease: seconds, or None for a hold that the watchdog renews.

        Returns:
            The hold, or None when *deadline* came first.

        Raises:
            ReentryError: it is not reentrant and *owner* holds it.
            HoldLostError: a re-entry found that the hold is lost.
            ServerUnavailableError: the server gave no usable answer in time.
            WrongTypeError: the key holds something else.
            ReplicationError: too few replicas have it, and they are required.

        Cost:
            One round trip when it is free or *owner*'s. While waiting, one per message of the
            channel and per poll cap, for the whole process. With `Options.replicas`, the time until
            the replicas acknowledge comes on top.

        Source:
            RLock.lock and tryLock.
        """
        # Made without `__init__`: a call of that costs as much as the object.
        step = Acquire()
        step.lock, step.owner, step.deadline, step.lease = self, owner, deadline, lease
        step.sent_at = 0.0
        step.outcome = step.again = step.result = None
        return step

    def release(self, owner: Owner) -> Step[None]:
        """Go down by one depth; free the lock at 0.

        Raises:
            NotHeldError: *owner* does not hold it; nothing was changed.
            HoldLostError: it was lost before.
            ServerUnavailableError: no reply. The hold is no longer renewed, and the release may be
                tried again.

        Cost:
            One round trip.

        Source:
            RLock.unlock.
        """
        session = self.session
        try:
            hold = session.holds.table[self.hold_key, owner.identity]
        except KeyError:
            return Refused(not_held(self.kind, self.name, owner.label))
        # Some kinds of lock may pass on to a waiter. Without waiters this saves a call.
        if self.line in session.waiters.queues:
            return self.release_hold(hold)
        return Release().of(session, hold)

    def extend(self, owner: Owner, lease: float) -> Step[None]:
        """Extend the hold of *owner* as `extend_hold` does; NotHeldError also without one."""
        hold = self.session.holds.table.get((self.hold_key, owner.identity))
        if hold is None or hold.state is PENDING:
            return Refused(not_held(self.kind, self.name, owner.label))
        return self.extend_hold(hold, lease)

    # One try: a hold, the script that asks for it, and what takes the answer. Nothing here waits.

    def new_hold(self, owner: Owner, lease: float | None) -> Hold:
        """Create a hold. It is not in the table yet.

        It must be there before anything is sent for it.
        """
        session, kept = self.session, self._kept
        if kept is not None and kept.number == owner.number and kept.client_id is session.client_id:
            holder = kept.holder
        else:
            holder = self._holder(owner)
        if lease is not None:
            return Hold(self, owner, holder, check_lease(lease))
        return Hold(self, owner, holder, session.options.lease, self.kept_renewal)

    def _holder(self, owner: Owner) -> str:
        """Return the holder id for a new hold of *owner*."""
        return self.session.holder(owner)

    def name_anew(self, hold: Hold, owner: Owner) -> None:
        """Give *hold*, which was just reserved, the present holder id of *owner*.

        Another thread of the same owner may have drawn a new number since `new_hold`, because
        commands with the old one may still arrive. They must not hit this hold.
        """
        holder = self._holder(owner)
        if holder != hold.holder:
            hold.rename(holder)
            hold.sent()

    def request(self, hold: Hold, deadline: float, now: float) -> Eval[Grant | float]:
        """Return the script that tries to get *hold*. It may be shared: do not change it.

        The encoded command is kept for an owner that takes this lock again and again. It also
        serves the single try of a red lock, which limits the time itself.
        """
        kept = self._kept
        if (  # `kept_for` inlined
            kept is not None
            and kept.holder == hold.holder
            and kept.lease == hold.lease
            and deadline in self.repeats_for
            and self.line not in self.session.waiters.places
        ):
            return kept.acquire
        call = self._request(hold, deadline, now)
        if self.repeats and deadline in self.repeats_for and call.replication is None:
            self._keep(hold, call)
        return call

    def kept_for(self, hold: Hold) -> KeptCommands | None:
        """Return the commands that are kept for *hold*; None if its owner is new here."""
        kept = self._kept
        if kept is None or kept.holder != hold.holder or kept.lease != hold.lease:
            return None
        return kept

    def _keep(self, hold: Hold, call: Eval[Grant | float]) -> None:
        """Keep the commands of the owner of *hold*, if it comes again under the same number.

        *call* is the first try for *hold*.
        """
        if self.kept_for(hold) is not None:
            return
        owner, client_id = hold.owner(), self.session.client_id
        number = 0 if owner is None else owner.number
        again = self._last_holder == hold.holder
        if owner is not None and again and self._holder(owner) == hold.holder:
            usual = call.deadline == NEVER and not call.spare_args
            first = call if usual else self.acquire_script(hold, hold.lease, 1, NEVER)
            self._kept = KeptCommands(client_id, number, hold, first, self.release_script(hold, 0))
        self._last_holder = hold.holder

    def _request(self, hold: Hold, deadline: float, now: float) -> Eval[Grant | float]:
        """Return the script that tries to get *hold*, for an owner that waits until *deadline*."""
        call = self.acquire_script(hold, hold.lease, 1, self.answer_by(deadline, now))
        place = self.session.waiters.places.get(self.line)
        if place is not None and deadline > now:
            # If others wait here, the client stays in the queue when this waiter gets the lock.
            others_wait = not self.session.waiters.alone(self.line)
            starts = self.starts(hold, others_wait=others_wait)
            if starts:
                hold.stand()
            place.stand(others_wait, hold.holder if starts else "")
            keep = QUEUE_KEPT * self.session.options.poll_cap
            stand_in_queue(
                *(call, place.client),
                others_wait=others_wait,
                keep=keep,
                starts=starts,
                queue=place.queue,
            )
        call.patient = True
        if self.session.replicas is not None:
            require_replicas(call, hold, self.session.replicas)
        return call

    def starts(self, hold: Hold, *, others_wait: bool) -> bool:
        """Return whether the client is to stand in the server's queue in the name of *hold*.

        Then a release may make *hold* the holder, which starts without asking.
        """
        del hold, others_wait
        return False

    @staticmethod
    def answer_by(deadline: float, sent_at: float) -> float:
        """Return the deadline for further tries.

        A single try, too, has time for a second one, in case its connection is stale.
        """
        return deadline if deadline > sent_at else sent_at + GRACE

    def may_try_first(self, hold: Hold, deadline: float) -> bool:
        """Return whether to try for *hold* before queueing."""
        del hold
        return may_try_first(self.session, self.line, deadline)

    def excludes(self, hold: Hold) -> bool:
        """Return whether *hold*, which another owner has, keeps this lock from being acquired."""
        return hold.core.hold_key == self.hold_key and hold.core.session is self.session

    # The steps after a first try that was not enough. A red lock runs them for many at once.

    def is_live(self, hold: Hold) -> bool:
        """Return whether an acquire by the owner of *hold* is a re-entry."""
        if hold.state is PENDING:
            raise ReentryError(
                f"{self.kind} {self.name!r} is just being acquired by the same owner",
                name=self.name,
            )
        clock = self.session.clock
        if hold.state is HELD and hold.lost(clock()):
            self.session.lose(hold, hold.expiry_reason())
        if hold.state is LOST and hold.inside() and not hold.ran_out():
            # The owner must hear of the loss.
            raise lost(hold, "; release it before you acquire it again")
        if hold.state is HELD:
            return True
        # Another thread's release of it may still be under way.
        renumber_owner(hold)
        return False

    def go_on(
        self,
        hold: Hold,
        deadline: float,
        sent_at: float,
        outcome: Grant | float | BaseException | None,
    ) -> Op[Hold | None]:
        """Continue an acquire after its first try; results and errors as for `acquire`.

        This is `undoing`, inlined. Many owners may wait here, and one generator less saves memory
        for each.

        Args:
            hold: the hold that is acquired, PENDING.
            deadline: as in `acquire`.
            sent_at: when the first try was sent.
            outcome: its answer, or how it failed; None if there was no try.
        """
        ended_by: BaseException | None = None
        self.session.events.begin_wait(self, hold, sent_at)
        place = self.session.waiters.places.get(self.line)
        if place is not None and isinstance(outcome, float):
            place.refused(outcome)
        try:
            try:
                if outcome is None or (isinstance(outcome, float) and hold.state is PENDING):
                    op = self._wait(hold, deadline)
                else:
                    op = self._after_first_try(hold, deadline, sent_at, outcome)
                outcome = None
                taken = yield from op
                place = self.session.waiters.places.get(self.line)
                if taken and place is not None and place.taken:
                    # Usually no place is left. One is if others gave up during a local pass.
                    yield from leave_queue(self.session, self.line, self.leave_script, later=True)
            except GeneratorExit:
                raise
            except BaseException as error:
                ended_by = error
                if hold.entered_again():
                    # `Acquire.rest` goes down by one. Others of the same owner keep the hold.
                    yield from leave_queue(self.session, self.line, self.leave_script, later=True)
                else:
                    yield from self._undo(hold, error)
                raise
            if taken:
                return hold
            yield from self._undo(hold)
            return None
        finally:
            self.session.events.end_wait(hold, ended_by)
            ended_by = None  # the error refers to this frame
            if hold.state is PENDING:
                self.session.holds.unreserve(hold)

    def _undo(self, hold: Hold, error: BaseException | None = None) -> Op[None]:
        """Undo as `undo_acquire` does, and give up the place in the server's queue."""
        session = self.session
        if hold.state is HELD and session.holds.observer is not None:
            session.holds.observer.released(hold)
        if hold.placed:
            renumber_owner(hold)  # giving up the place releases what its claim has made of it
        silent = not (yield from session.promptly(undo_acquire(session, hold, error)))
        yield from leave_queue(
            session, self.line, self.leave_script, error, later=silent, hold=hold
        )

    def leave_script(self, place: Place) -> Eval[int]:
        """Return the script that gives up *place*, and passes on a claim that it got."""
        return lock_release(
            *(self.key, place.holder or f"{place.client}:0", 0, self.session.publish, self.channel),
            leaving=(place.client,),
        )

    def _after_first_try(
        self,
        hold: Hold,
        deadline: float,
        sent_at: float,
        outcome: Grant | float | BaseException,
    ) -> Op[bool]:
        """Go on after the *outcome* of the first try; return whether *hold* is held."""
        if isinstance(outcome, InterlockError) and hold.unanswered:
            hold.failed(outcome)
        if isinstance(outcome, ServerUnavailableError) and hold.state is PENDING:
            call = self._request(hold, deadline, sent_at)
            answer = yield from self.session.again(call, outcome, hold)
            if self.accept(hold, sent_at, answer):
                return True
        elif isinstance(outcome, BaseException):
            raise outcome
        else:
            answer = outcome
        _ = yield from self._not_held(hold, answer, deadline)
        return (yield from self._wait(hold, deadline))

    def _wait(self, hold: Hold, deadline: float) -> Op[bool]:
        """Try until *hold* is held or *deadline* passes, after a first try or without one."""
        return self._wait_here(hold, deadline, NO_TURN)

    def _wait_here(self, hold: Hold, deadline: float, turn: Turn) -> Op[bool]:
        """Wait in this client's queue; *turn* is how *hold* may be given the lock."""
        # Nobody else can have it before the lease of *hold* ends, unless several may hold it.
        look = None if self.shared else hold.lease
        session, shared = self.session, self.shared
        return wait_in_queue(
            session, self.line, deadline, look, self._try, hold, deadline, turn=turn, shares=shared
        )

    def _try(self, hold: Hold, deadline: float) -> Op[float | None]:
        """Ask the server once.

        Return None if *hold* is held now, else how long another owner may keep the lock.
        """
        if hold.state is not PENDING and hold.depth > 0:
            return None  # it was passed on
        session = self.session
        sent_at = session.clock()
        call = self._request(hold, deadline, sent_at)
        answer = yield from session.persist(call, hold)
        if self.accept(hold, sent_at, answer):
            place = session.waiters.places.get(self.line)
            if place is not None and call.spare_args:
                place.granted()
            return None
        return (yield from self._not_held(hold, answer, deadline))

    def _not_held(self, hold: Hold, answer: Grant | float, deadline: float) -> Op[float]:
        """Return the seconds until the next try after *answer*, which did not make *hold* held.

        A grant that cannot be used is given back.
        """
        if hold.state is ENDED:
            raise ClosedError("the client was closed, and what it was just acquiring given back")
        if not isinstance(answer, Grant):
            return answer
        # The answer took longer than the lease: somebody else may hold it by now.
        self.session.note_short_lease(self.kind, self.name, hold.lease)
        call = self.release_script(hold, 0)
        call.deadline = self.answer_by(deadline, self.session.clock())
        _ = yield from self.session.persist(call)
        if call.unknown and (owner := hold.owner()) is not None:
            owner.renumber()  # a copy of that release may still be under way
            yield from end_late_grants(self.session, hold)
            hold.rename(self._holder(owner))
        hold.released()
        return 0.0

    # A release.

    def kept_release(self, hold: Hold, depth: int) -> Eval[int]:
        kept = self._kept  # `kept_for` inlined, for any lease
        if depth == 0 and kept is not None and kept.holder == hold.holder:
            return kept.release
        return self.release_script(hold, depth)


def require_replicas(call: Eval[Grant | float], hold: Hold, policy: ReplicaPolicy) -> None:
    """Ask replicas about *hold* if *call* grants it."""
    what = f"{hold.core.kind} {hold.name!r}"
    call.replication = Replication(policy, what, is_grant, hold.lease)
    hold.ask_replicas(call.replication)


def is_grant(answer: object) -> bool:
    """Return whether a decoded *answer* is a grant."""
    return isinstance(answer, Grant)


# What is left to do when a hold or an operation ends.


def undo_acquire(session: Session, hold: Hold, error: BaseException | None = None) -> Op[None]:
    """Undo the acquire of *hold*, which ended with *error*, or in vain (None).

    After that, neither a pending offer of the lock nor an unanswered try can make *hold* held.
    """
    granted, late = hold.depth > 0, hold.late_grants()
    if not (late or granted):
        session.holds.end(hold)
        return
    # The release must also find the grant that we know of, or the one that the queue may give.
    known = granted or hold.placed
    # A fair lock's place may last longer than a lease.
    until = session.clock() + max(hold.lease, session.options.fair_wait if hold.queued else 0)
    release = bring_down(session, hold, 0, until, error, late=late, known=known)
    session.holds.end(hold)
    yield from release
    # Only now: if a Ctrl-C comes during the clean-up, this runs once more.
    hold.gave_back()


def bring_down(
    session: Session,
    hold: Hold,
    depth: int,
    until: float,
    error: BaseException | None = None,
    *,
    late: int | None = None,
    known: bool = True,
    later: bool = False,
) -> Op[None]:
    """Take *hold* down to *depth* on the server, promptly or in the background.

    At 0 that ends the late grants, too, and the owner draws a new number at once: what is sent may
    arrive late. Only then remove the hold from the table.

    Args:
        session: the client's state.
        hold: the hold.
        depth: what the table says.
        until: when the lease has ended the hold.
        error: what ended the operation, as for `Session.clean_up`.
        late: how many late grants there are; None for the tries without a reply.
        known: whether the server has the hold, so that the release must find that, too.
        later: as for `Session.clean_up`.
    """
    late = 0 if depth else hold.unanswered if late is None else late
    if depth == 0:
        renumber_owner(hold)
    if late:
        until, late = max(until, session.clock() + hold.lease), late + known
    call = hold.core.release_script(hold, depth)
    return session.clean_up(call, until, late, error, later=later)


def end_late_grants(session: Session, hold: Hold) -> Op[None]:
    """End the late grants of *hold* in the background; the server no longer has the hold.

    Call `renumber_owner` first, and only then remove the hold from the table.
    """
    if hold.unanswered:
        yield from bring_down(session, hold, 0, 0.0, known=False, later=True)


def renumber_owner(hold: Hold) -> None:
    """Give the owner of *hold* a new number, so that a late command does not hit a later hold."""
    if (owner := hold.owner()) is not None:
        owner.renumber()


def _finish_later(session: Session, hold: Hold, depth: int, error: BaseException) -> Op[None]:
    """Finish a release that *error* interrupted, at once or in the background.

    The hold is not renewed meanwhile.
    """
    later = isinstance(error, InterlockError)
    yield from bring_down(session, hold, depth, hold.over_by(session.clock()), later=later)
    if depth == 0 and not later:
        session.holds.released(hold)


def _end_lost(session: Session, hold: Hold) -> Op[NoReturn]:
    """End a hold that this client takes for lost, on the server too; raise HoldLostError."""
    replaced = hold not in session.holds
    session.lose(hold, hold.expiry_reason())
    # If the owner has acquired the lock anew meanwhile, that hold may have the same field on the
    # server. It must not be ended here.
    if not replaced:
        if hold.reason in ("force-released", "server lost it"):
            yield from _end_gone(session, hold)
        release = bring_down(session, hold, 0, session.clock() + GRACE, later=True)
        session.holds.end(hold)
        yield from release
    raise lost(hold)


def _end_gone(session: Session, hold: Hold) -> Op[NoReturn]:
    """End a hold that the server no longer has; raise HoldLostError."""
    # A try to get it may still be under way, or a copy of the command that broke it.
    renumber_owner(hold)
    known = hold.state is LOST
    tell = session.begin_loss(hold, hold.gone_reason(session.clock()))
    session.holds.end(hold)
    try:
        yield from end_late_grants(session, hold)
        if not known or hold.detail == UNASKED:
            # The watchdog may have noted the loss, and not read the answer to its question yet.
            yield from ask_why(session, hold, alone=not known)
    finally:
        tell()
    raise lost(hold)


# Errors.


def unreleased(hold: Hold, error: ServerUnavailableError) -> ServerUnavailableError:
    """Return a copy of *error*, which ended a release, that says what becomes of *hold*."""
    told = copy(error)  # other callers may have got the same object
    what = f"{hold.core.kind} {hold.name!r} is not renewed any more and ends with its lease"
    told.args = (f"{error}; {what}, unless another release succeeds before",)
    return told


def lost(hold: Hold, advice: str = "") -> HoldLostError:
    """Return the error for the owner of *hold*, which is lost."""
    reason = hold.reason or "expired"
    why = tell_loss(reason, hold.detail)
    return HoldLostError(
        f"{hold.core.kind} {hold.name!r} was lost ({why}) before {hold.label} released it{advice}",
        name=hold.name,
        reason=reason,
        detail=hold.detail,
    )
