"""The condition: owners of a lock wait until another owner of it notifies them.

A wait is a place. One script lets the owner's next hold stand in the condition, and releases the
lock. A notification moves it to the end of the lock's queue: from there on it waits for the lock as
any other hold. However deep the former hold was entered, its entries go to the next one.

    a waiter                         goes on with
    ------------------------------   -----------------------------------------------------------
    is granted the lock              the message: it was notified
    is not found by a look           an ask for the lock: notified, or its place was lost
    has waited long enough           a script that takes it out, and tells whether it was notified
    is interrupted                   the same, which notifies the next one in its place; it asks
                                     for the lock, and raises when it has that
    is interrupted again             garbage: the former hold, its place here, and the next hold
    dies                             nothing: it does not listen, so a notification passes it by

So a notification may wake one too many (who did not listen for a moment, copies, lost data), and never
too few; one is spent if its waiter dies before it has the lock.

Rejected: a generation that wakes all. With 32 waiters that takes 67 scripts a notification, not six.

Source: threading.Condition and asyncio.Condition of Python 3.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.locks.base import Acquire, note_entered
from interlock._core.locks.errors import lost_error, not_held
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.read_write_lock import WriteLock
from interlock._core.locks.release import hold_of
from interlock._core.model.effects import NEVER, Eval, Listen, Op, Step, Wait
from interlock._core.model.hold import ENDED, LEAST, LOST, OPEN, Hold
from interlock._core.model.names import (
    condition_key,
    fence_token,
    packed_text,
    reader_coming,
)
from interlock._core.model.tokens import EPOCH_BITS
from interlock._core.queue.places import DEAF, Row, nobody
from interlock._core.scripts import condition as scripts
from interlock._core.scripts.locks import Grant
from interlock._core.scripts.replies import LOOK, News
from interlock.errors import ClosedError, ConfigError, HoldLostError, InterlockError, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.locks.base import Lock
    from interlock._core.model.hold import Owner
    from interlock._core.queue.places import Line, Place
    from interlock._core.scripts.condition import Waits

ALL = -1
"""Stands for all waiters."""
MOST = 1000
"""How many one script notifies, at most."""
KEEP = 60.0
"""Seconds for which a server keeps a condition after a look: so long one goes on to leave it."""
PASS_ON, PASS_ON_ONCE = "1", "?"
"""How a waiter leaves that was perhaps notified: see ``condition_leave.lua``."""


class Condition:
    """The operations of one condition for one client.

    Args:
        lock: the lock that its users hold.
        name: what tells several conditions of one lock apart; empty if there is one.

    Attributes:
        key: of the condition on the server.
    """

    kind = "condition"

    def __init__(self, lock: Lock, name: str) -> None:
        self.lock, self.name = lock, f"{lock.name}:{name}" if name else lock.name
        self.key = condition_key(lock.key, name)

    def held(self, owner: Owner) -> Hold:
        """Return what *owner* holds of the lock.

        Raises:
            NotHeldError: nothing.
            HoldLostError: it is lost.
        """
        lock, hold = self.lock, hold_of(self.lock, owner)
        if hold is None or (hold.over is None and len(hold.entries) < LEAST):
            raise not_held(lock.kind, lock.name, owner.label)
        lock.session.watchdog.expire(hold, lock.session.clock())
        if hold.over is LOST:
            raise lost_error(hold)
        return hold

    # The commands.

    def waits(self, hold: Hold, member: str) -> Eval[Waits | None]:
        """Return the script by which *hold* ends, and *member* stands in the condition."""
        lock, publish = self.lock, self.lock.session.publish
        how = "1" if hold.place is not None and hold.place.open else ""
        keys: tuple[str, ...] = (lock.key, self.key)
        queue: tuple[str, ...] = (lock.queue,) if lock.queue else ()
        args: tuple[str | int, ...] = (hold.holder, lock.channel, how, member)
        variants = scripts.WAIT
        if isinstance(lock, FencedLock):
            variants, keys = scripts.FENCED_WAIT, (*keys, fence_token(lock.key))
            unit = 1 << EPOCH_BITS if lock.session.outside.clustered else 0
            args = (*args, unit, lock.floor())
        elif isinstance(lock, WriteLock):
            variants = scripts.WRITE_WAIT
            queue = (reader_coming(lock.key), *queue) if queue else ()
        return Eval(variants[publish], (*keys, *queue), args, spare_keys=len(queue))

    def notifies(self, holder: str, count: int) -> Eval[int | None]:
        """Return the script that notifies *count* waiters, or `ALL`, if *holder* has the lock."""
        args = (holder, MOST if count == ALL else count, self.lock.channel)
        rest = ("1",) if count == ALL else ()
        return self._of_both(scripts.NOTIFY[self.lock.session.publish], (*args, *rest))

    def leaves(self, member: str, how: str = "") -> Eval[int]:
        """Return the script by which *member* leaves the condition."""
        args = (member, self.lock.channel, how)
        return self._of_both(scripts.LEAVE[self.lock.session.publish], args)

    def looks(self, members: Sequence[str]) -> Eval[list[int]]:
        """Return the script that tells which of *members* stand there no longer."""
        return Eval(scripts.LOOK_AT, (self.key,), tuple(members))

    def _of_both(self, script: Any, args: tuple[str | int, ...]) -> Eval[Any]:
        # Who has no place in the lock's queue is not moved there: he just wakes.
        lock = self.lock
        queue = (lock.queue,) if lock.queue and lock.queues else ()
        return Eval(script, (lock.key, self.key, *queue), args, spare_keys=len(queue))


class _Later:
    """Stands for the lock of what is garbage: its release is the *call* at the key of *lock*."""

    def __init__(self, lock: Lock, call: Eval[Any]) -> None:
        self.key, self._call = lock.key, call

    def down(self, hold: Hold, depth: int) -> Eval[Any]:
        """Return the call."""
        del hold, depth
        return self._call.anew()


def _later(lock: Lock, call: Eval[Any]) -> Hold:
    """Return what sends *call* once it is garbage, until that is answered."""
    garbage: Any = _Later(lock, call)
    lease = max(KEEP, lock.session.options.lease)
    return Hold().of(garbage, nobody, packed_text(""), lease, True)


class WaitFor(Acquire):
    """A wait of *owner* for *condition* until *deadline*; the result is whether it was notified.

    Attributes:
        hold: the next hold, once it has begun.
    """

    __slots__ = (
        "_call", "_condition", "_entries", "_former", "_leaver", "_left", "_member", "_row",
        "_unanswered",
    )  # fmt: skip
    result: Any

    def __init__(self, condition: Condition, owner: Owner, deadline: float) -> None:
        _ = self.of(condition.lock, owner, deadline)
        self._condition = condition
        self._former: Hold | None = None
        self._entries: list[object] = []
        self._row: Row | None = None
        self._member, self._left, self._unanswered = "", False, True

    def _holds(self) -> tuple[Hold, Hold, Place]:
        """Return the former hold, the next one and its place, once it has begun."""
        former, hold = self._former, self.hold
        assert former is not None
        assert hold is not None
        assert hold.place is not None
        return former, hold, hold.place

    def begin(self) -> None:
        """Make the next hold.

        Raises:
            NotHeldError: its owner does not hold the lock.
            HoldLostError: the lock is lost.
        """
        lock, former = self._lock, self._condition.held(self._owner)
        if any(isinstance(entry, Hold) for entry in former.entries):
            raise ConfigError(
                f"{lock!r} is held by a lock of several members, which would be broken by a wait "
                "for one of them; hold it alone for this condition"
            )
        hold = lock.new_hold(self._owner, None if former.renewed else former.lease)
        _ = lock.session.queues.know(hold)
        self._former, self.hold = former, hold

    def _depart(self) -> Eval[Any]:
        """Put the next hold in the place of the former one, here; return the wait. Repeatable."""
        (former, hold, place), session = self._holds(), self._lock.session
        if not place.before:
            self._member = f"{hold.holder}{'?' if place.line.deaf else ''}"
            self._call = self._condition.waits(former, self._member)
            self._entries = former.entries[1:]
            leave = self._condition.leaves(self._member, PASS_ON_ONCE)
            self._leaver = _later(self._lock, leave)
            place.before = (former, self._leaver)
        session.live[hold] = None
        self._owner.table[self._lock.place] = hold
        hold.replace_among(former)
        session.live.pop(former, None)
        former.entries.clear()
        if self._row is None:
            self._stand(place.line)
        return self._call

    def _stand(self, line: Line) -> None:
        key = self._condition.key
        row = self._row = line.rows.get(key) or line.rows.setdefault(key, Row(line))
        assert self.hold is not None
        row.stand(self.hold, self._member, self._lock.session.clock())

    def rest(self, failure: Exception | None) -> Op[Any]:
        """Release the lock, wait until it is notified, or time is up; then hold the lock again."""
        del failure  # `begin` sends nothing
        yield from self._listen()
        yield from self._release()
        try:
            news = yield from self._notified()
            self.result = not self._left
            yield from self._hold_again(news)
        except (ClosedError, HoldLostError):
            raise
        except InterlockError as error:
            raise self._lost(error) from error
        return self.result

    def _listen(self) -> Op[None]:
        """Wait until it is known how this client is told of grants; who is deaf is not notified."""
        (former, hold, place), session = self._holds(), self._lock.session
        while not session.queues.know(hold).line.ready:
            _ = place.take()
            place.line.waiters[hold] = None
            try:
                yield from Listen(place.line)
                if not place.line.ready:
                    yield from Wait(place, session.clock() + DEAF)
            finally:
                session.queues.leave(hold)
            session.watchdog.expire(former, session.clock())
            if former.over is LOST:
                raise lost_error(former)

    def _release(self) -> Op[None]:
        """Send the wait, which releases the lock.

        Raises:
            HoldLostError: the lock was lost, or there was no answer in time.
            ServerUnavailableError: it was refused, and the lock is held as before.
        """
        (former, hold, place), session = self._holds(), self._lock.session
        call = self._depart()
        call.deadline = former.valid_until
        try:
            answer: Waits | None = yield from session.persist(call, former.valid_until, hold)
        except ClosedError:
            raise
        except InterlockError as error:
            refused = getattr(error, "code", None) and not getattr(error, "transient", False)
            if not (refused or isinstance(error, WrongTypeError)):
                raise self._lost(error) from error
            self._stay()
            raise
        if answer is not None:
            if answer.news is not None:  # first: the next holder waits for this
                session.queues.tell(self._lock, answer.numbers, answer.news)
            heard = hold.sent_at >= place.line.heard_at
            place.sent, place.refused = hold.sent_at, answer.at if heard else 0
            hold.asking = hold.resent = False
        elif hold.resent and session.clock() < former.valid_until:
            self._forget_row(hold)  # a copy has released it, and its waiter has had its turn
        else:
            self._stay()
            yield from self._lock.ask_why(former)
            raise lost_error(former)
        self._released()

    def _released(self) -> None:
        """Note that the server has released the former hold, whose release may be sent again."""
        (former, _, place), session = self._holds(), self._lock.session
        place.before = place.before[1:]
        self._unanswered = False
        session.recent.append((session.clock(), self._lock, former.packed))
        session.released(former)

    def _stay(self) -> None:
        """Let the former hold be what it was: nothing was released."""
        (former, hold, place), session = self._holds(), self._lock.session
        former.entries.extend([OPEN, *self._entries])
        session.live[former] = None
        self._owner.table[self._lock.place] = former
        former.replace_among(hold)
        place.before = place.before[1:]
        self._forget_row(hold)
        session.give_up(hold)
        self._former = None  # nothing is left to undo

    def _notified(self) -> Op[News | None]:
        """Wait for a notification until the deadline; return the news of a grant, if there are any."""
        _, hold, _ = self._holds()
        session, queues = self._lock.session, self._lock.session.queues
        while True:
            place, row = queues.know(hold), self._row
            if row is None or hold not in row.waiters:
                self._forget_row(hold)
                return None
            if row.line is not place.line:  # that one has come to rest
                self._forget_row(hold)
                self._stand(place.line)
            if not place.line.ready:
                yield from Listen(place.line)
            news = place.take()
            if news is None:
                if session.clock() >= self._deadline:
                    break
                yield from Wait(place, self._deadline)
            elif news is LOOK:
                yield from self._look()
            else:
                self._forget_row(hold)
                return news
        leave = self._condition.leaves(self._member)
        stood = yield from session.persist(leave, NEVER)
        self._left = stood == 1
        # A server that takes over may lack it, and whoever is notified in its place never wakes.
        later: Any = _Later(self._lock, leave)
        session.recent.append((session.clock(), later, packed_text("")))
        self._forget_row(hold)
        return None

    def _look(self) -> Op[None]:
        """Look for all who wait here."""
        row = self._row
        assert row is not None
        holds = list(row.waiters.items())
        call = self._condition.looks([member for _, member in holds])
        gone: list[int] = yield from self._lock.session.persist(call, NEVER)
        row.gone([holds[each][0] for each in gone if each < len(holds)])

    def _forget_row(self, hold: Hold) -> None:
        row, self._row = self._row, None
        if row is not None:
            row.leave(hold, self._lock.session.clock())

    def _hold_again(self, news: News | None) -> Op[None]:
        """Hold the lock, by a grant that the *news* tell of or by asking for it."""
        (former, hold, place), lock = self._holds(), self._lock
        if news is None or not lock.started(hold, news):
            began = lock.session.clock()
            answer = yield from lock.attempt(hold, NEVER, None)
            if not lock.granted(hold, answer):
                if answer.__class__ is Grant:
                    place.tell(LOOK)  # it came too late
                lock.session.events.begin_wait(lock, hold, began)
                _ = yield from lock.wait(hold, NEVER)
        hold.succeed(former, self._entries)
        place.before = ()
        note_entered(hold)

    def _lost(self, error: InterlockError) -> HoldLostError:
        """Return the error for who cannot have the lock again because of *error*."""
        condition, lock = self._condition, self._lock
        return HoldLostError(
            f"{lock.kind} {lock.name!r} could not be acquired again after a wait for condition "
            f"{condition.name!r}: {error}",
            name=lock.name,
            reason="unreachable past validity",
        )

    def undo(self) -> Op[None]:
        """After an interruption: notify the next one if it was notified, and hold the lock again.

        Raises:
            HoldLostError: that is impossible.
        """
        former, hold, session = self._former, self.hold, self._lock.session
        if former is None or hold is None or hold.place is None:
            return
        place, condition = hold.place, self._condition
        if hold.over is not None or not (place.before or hold.entries):
            self.give_up()
            return
        try:
            if self._unanswered:
                _ = self._depart()
                answer = yield from session.persist(self._lock.down(former, 0), NEVER)
                if answer.__class__ is tuple:  # the next holder is one of this client's
                    session.queues.tell(self._lock, *answer)
                self._released()
            self._forget_row(hold)
            if not self._left:
                _ = yield from session.persist(condition.leaves(self._member, PASS_ON), NEVER)
                self._left = True
            if not hold.entries:
                yield from self._hold_again(None)
            place.before = ()
        except (ClosedError, HoldLostError):
            raise
        except InterlockError as error:
            raise self._lost(error) from error

    def give_up(self) -> None:
        """Leave nothing behind, unless the lock is held again."""
        former, hold, session = self._former, self.hold, self._lock.session
        if former is None or hold is None or hold.place is None:
            return
        if hold.entries:
            hold.place.before = ()
            if not self._left:
                session.garbage.add(self._leaver)
                session.wake(None)
        elif not hold.place.before:  # it has not begun
            hold.over = ENDED
            session.queues.forget(hold)
        else:
            former.entries.clear()
            self._forget_row(hold)
            session.events.end_wait(hold, None)
            if self._unanswered:
                session.live.pop(former, None)
                former.leave_owner()
                former.over = former.over or ENDED
            session.give_up(hold)


class Notify(Step[None]):
    """Notify *count* waiters of *condition*, or `ALL`, for *owner*.

    Interrupted, it is carried through by the garbage, also if the lock is released before.
    """

    __slots__ = ("_condition", "_count", "_hold", "_owner", "_settled")
    result = None

    def __init__(self, condition: Condition, owner: Owner, count: int) -> None:
        self._condition, self._owner, self._count = condition, owner, count
        self._settled = True

    def begin(self) -> None:
        """Make sure that its owner holds the lock; errors as `WaitFor.begin`."""
        self._hold = self._condition.held(self._owner)
        self._settled = self._count == 0

    def rest(self, failure: Exception | None) -> Op[None]:
        """Notify until all are, or raise that the lock is lost."""
        del failure  # `begin` sends nothing
        hold, session = self._hold, self._condition.lock.session
        while not self._settled:
            asked = min(self._count, MOST)
            call = self._condition.notifies(hold.holder, asked)
            moved = yield from session.persist(call, hold.valid_until)
            if moved is None:
                self._settled = True
                if hold.over is None:
                    yield from hold.lock.ask_why(hold)
                raise lost_error(hold)
            self._count -= asked
            self._settled = self._count <= 0 or moved < asked

    def give_up(self) -> None:
        """Notify the rest without the caller."""
        if not self._settled:
            self._settled = True
            condition = self._condition
            session = condition.lock.session
            session.garbage.add(_later(condition.lock, condition.notifies("", self._count)))
            session.wake(None)
