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

Every 2 s one of those who wait by one object looks for all of them, which also keeps the condition on
the server. A message makes the first of them look.

So a notification may wake one too many (who did not listen for a moment, copies, lost data), and never
too few; one is spent if its waiter dies before it has the lock.

Rejected: a generation that wakes all. With 32 waiters that takes 67 scripts a notification, not six.

Source: threading.Condition and asyncio.Condition of Python 3.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.locks.base import Acquire, note_entered
from interlock._core.locks.errors import lost_error, not_held
from interlock._core.locks.release import hold_of
from interlock._core.model.effects import NEVER, Eval, Op, Step
from interlock._core.model.hold import ENDED, LEAST, LOST, OPEN, Hold
from interlock._core.model.names import condition_key, packed_text
from interlock._core.queue.places import DEAF, POLL, news_for, nobody
from interlock._core.scripts import condition as scripts
from interlock._core.scripts.replies import LOOK, News
from interlock.errors import ClosedError, ConfigError, HoldLostError, InterlockError, WrongTypeError

if TYPE_CHECKING:
    from interlock._core.locks.base import Lock
    from interlock._core.model.hold import Owner
    from interlock._core.queue.places import Line, Place
    from interlock._core.scripts.condition import Waits

ALL = -1
"""Stands for all waiters."""
MOST = 1000
"""How many one script notifies, at most."""
KEPT = 60.0
"""Seconds for which a server keeps a condition after a look: so long one goes on to leave it."""
LEAVE, PASS_ON = "leave", "pass on"
"""How a waiter leaves: with PASS_ON the next one is notified in its place, if it was."""
STOOD = -1
"""The answer to a waiter that leaves, and was not notified."""


class Condition:
    """The operations of one condition for one client.

    Args:
        lock: the lock that its users hold.
        name: what tells several conditions of one lock apart; empty if there is one.

    Attributes:
        standing: who waits here, each with its member on the server, in the order in which they came.
        look_at: when one of them shall look for all.
    """

    kind = "condition"

    def __init__(self, lock: Lock, name: str) -> None:
        self.lock, self.name = lock, f"{lock.name}:{name}" if name else lock.name
        self.session = lock.session
        self.key = condition_key(lock.key, name)
        self.standing: dict[Hold, str] = {}
        self.look_at = NEVER

    def held(self, owner: Owner) -> Hold:
        """Return what *owner* holds of the lock, or raise NotHeldError or HoldLostError."""
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
        release = self.lock.down(hold, 0)
        holder, _, channel, *rest = release.args
        how, *draws = rest or ("",)
        keys, args = (release.keys[0], self.key, *release.keys[1:]), (holder, channel, how, member)
        script = scripts.WAITS[release.script.name][self.session.publish]
        return Eval(script, keys, (*args, *draws), spare_keys=release.spare_keys)

    def notifies(self, holder: str, count: int) -> Eval[int | None]:
        """Return the script that notifies *count* waiters, or `ALL`, if *holder* has the lock."""
        return self._notice(holder, MOST, "all") if count == ALL else self._notice(holder, count)

    def leaves(self, member: str, how: str) -> Eval[int | None]:
        """Return the script by which *member* leaves; its answer is `STOOD` if it was not notified."""
        return self._notice(member, 1, how)

    def _notice(self, holder: str, count: int, *how: str) -> Eval[int | None]:
        # Who has no place in the lock's queue is not moved there: he just wakes.
        lock = self.lock
        queue = (lock.queue,) if lock.queue and lock.queues else ()
        keys = lock.key, self.key, *queue
        args: tuple[str | int, ...] = holder, count, lock.channel, *how
        return Eval(scripts.NOTIFY[self.session.publish], keys, args, spare_keys=len(queue))

    def later(self, what: str) -> Hold:
        """Return what is to be sent: "<how> <member>" for a leave, or "<count> " to notify."""
        lock: Any = self
        lease = max(KEPT, self.session.options.lease)
        return Hold().of(lock, nobody, packed_text(what), lease, True)

    def down(self, hold: Hold, depth: int) -> Eval[int | None]:
        """Return the script that `later` has put into the id of *hold*."""
        del depth
        what, _, member = hold.member.rpartition(" ")
        return self.leaves(member, what) if member else self.notifies("", int(what))

    # Who waits here.

    def stand(self, hold: Hold, member: str) -> None:
        line = self.session.queues.stand(hold).line
        if not self.standing:
            self._put_off(line)
        self.standing[hold] = member
        line.look_in(POLL)  # so that the upkeep comes when it is granted the lock

    def leave(self, hold: Hold) -> None:
        """Note that *hold* waits here no longer; it may wait for the lock."""
        self.standing.pop(hold, None)
        if hold.place is not None:
            hold.place.aside = False

    def look(self, line: Line) -> Op[None]:
        """Wake all who wait here and stand there no longer; who looks waits at *line*."""
        standing = list(self.standing.items())
        self._put_off(line)
        call = Eval(scripts.LOOK_AT, (self.key,), tuple([member for _, member in standing]))
        gone: list[int] = yield from self.session.persist(call, NEVER)
        for hold, _ in [standing[each] for each in gone if each < len(standing)]:
            self.leave(hold)
            if hold.place is not None:
                hold.place.tell(LOOK)

    def _put_off(self, line: Line) -> None:
        # Who cannot listen learns of a grant by a look.
        self.look_at = self.session.clock() + (DEAF if line.deaf else POLL)


class WaitFor(Acquire):
    """A wait of *owner* for *condition* until *deadline*; the result is whether it was notified.

    What is still to be undone stands in `Place.before`: the former hold until its release is
    answered, and what passes the notification on until the lock is held again.

    Attributes:
        hold: the next hold, once it has begun.
    """

    __slots__ = ("_call", "_condition", "_entries", "_former", "_leaver", "_member")
    hold: Any
    result: Any

    def __init__(self, condition: Condition, owner: Owner, deadline: float) -> None:
        _ = self.of(condition.lock, owner, deadline)
        self._condition = condition
        self._former: Any = None
        self._entries: list[object] = []
        self._leaver: Any = None
        self._member = ""
        self.result = False

    def begin(self) -> None:
        """Make the next hold, unless its owner does not hold the lock; errors as `Condition.held`."""
        lock, former = self._lock, self._condition.held(self._owner)
        if former.wholes():
            raise ConfigError(
                f"{lock!r} is held by a lock of several members, which would be broken by a wait "
                "for one of them; hold it alone for this condition"
            )
        self._former = former
        self.hold = lock.new_hold(self._owner, None if former.renewed else former.lease)

    def _depart(self) -> Eval[Any]:
        """Put the next hold in the place of the former one, here; return the wait. Repeatable."""
        former, hold, session = self._former, self.hold, self._lock.session
        place: Place = hold.place
        if not self._member:
            member = f"{hold.holder}{'?' if place.line.deaf else ''}"
            self._call = self._condition.waits(former, member)
            self._entries = former.entries[1:]
            self._leaver = self._condition.later(f"{PASS_ON} {member}")
            place.before, place.aside = (former, self._leaver), True
            self._member = member  # last: from here on it has begun
        session.live[hold] = None
        self._owner.table[self._lock.place] = hold
        hold.replace_among(former)
        session.live.pop(former, None)
        former.entries.clear()
        return self._call

    def rest(self, failure: Exception | None) -> Op[Any]:
        """Release the lock, wait until it is notified, or time is up; then hold the lock again."""
        del failure  # `begin` sends nothing
        if not (yield from self._listen()):
            self.give_up()  # nothing was sent: the lock is held as before
            return self.result
        yield from self._release()
        try:
            news = yield from self._notified()
            self.result = self._leaver in self.hold.place.before
            yield from self._hold_again(news)
        except (ClosedError, HoldLostError):
            raise
        except InterlockError as error:
            raise self._lost(error) from error
        return self.result

    def _listen(self) -> Op[bool]:
        """Wait until it is known how this client is told of grants; return whether it is, in time.

        Who is deaf is not notified. A server may have no room for the connection that hears.
        """
        former, hold, session = self._former, self.hold, self._lock.session
        until = max(self._deadline, session.clock() + session.patience)
        while not session.queues.stand(hold).line.ready:
            _ = yield from news_for(hold, min(until, former.valid_until))
            session.watchdog.expire(former, session.clock())
            if former.over is LOST:
                raise lost_error(former)
            if session.clock() >= until:
                return False
        return True

    def _release(self) -> Op[None]:
        """Send the wait, which releases the lock.

        Raises:
            HoldLostError: the lock was lost, or there was no answer in time.
            ServerUnavailableError: it was refused, and the lock is held as before.
        """
        former, hold, session = self._former, self.hold, self._lock.session
        call, place = self._depart(), hold.place
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
        copied = hold.resent
        if answer is not None:
            if answer.news is not None:  # first: the next holder waits for this
                session.queues.tell(self._lock, answer.numbers, answer.news)
            heard = hold.sent_at >= place.line.heard_at
            place.sent, place.refused = hold.sent_at, answer.at if heard else 0
            hold.asking = hold.resent = False
            self._condition.stand(hold, self._member)
        elif not hold.resent or session.clock() >= former.valid_until:
            self._stay()
            yield from self._lock.ask_why(former)
            raise lost_error(former)
        # Else a copy has released it, and its waiter has had its turn.
        place.before = (self._leaver,)
        session.recent.append((session.clock(), self._lock, former.packed))
        if copied:  # what told the next holder may be lost: the answer to a release finds that
            session.garbage.add(former)
            session.wake(None)
        session.released(former)

    def _stay(self) -> None:
        """Let the former hold be what it was: nothing was released."""
        former, hold, session = self._former, self.hold, self._lock.session
        former.entries.extend([OPEN, *self._entries])
        session.live[former] = None
        self._owner.table[self._lock.place] = former
        former.replace_among(hold)
        hold.place.before = (self._leaver,)
        self._condition.leave(hold)
        session.give_up(hold)
        self._former = None  # nothing is left to undo

    def _notified(self) -> Op[News]:
        """Wait for a notification until the deadline; return the news of a grant, or that it asks."""
        hold, condition, session = self.hold, self._condition, self._lock.session
        while hold in condition.standing:
            news = yield from news_for(hold, min(self._deadline, condition.look_at))
            now = session.clock()
            if news is not None and news is not LOOK:
                condition.leave(hold)
                return news
            if news is None and now >= self._deadline:
                yield from self._time_is_up()
            elif now >= condition.look_at or (
                news is LOOK and [hold] == list(condition.standing)[:1]
            ):
                yield from condition.look(hold.place.line)  # a message makes the first of them look
        condition.leave(hold)
        return LOOK

    def _time_is_up(self) -> Op[None]:
        """Leave the condition, unless it was notified just now."""
        session, condition = self._lock.session, self._condition
        leave = condition.leaves(self._member, LEAVE)
        if (yield from session.persist(leave, NEVER)) == STOOD:
            self.hold.place.before = ()
        # A server that takes over may lack it, and whoever is notified in its place never wakes.
        later = condition.later(f"{LEAVE} {self._member}")
        session.recent.append((session.clock(), later.lock, later.packed))
        condition.leave(self.hold)

    def _hold_again(self, news: News) -> Op[None]:
        """Hold the lock, by a grant that the *news* tell of or by asking for it."""
        hold, lock = self.hold, self._lock
        if news is LOOK or not lock.started(hold, news):
            hold.place.tell(LOOK)
            lock.session.events.begin_wait(hold, lock.session.clock())
            _ = yield from lock.wait(hold, NEVER)
        hold.succeed(self._former, self._entries)
        note_entered(hold)
        hold.place.before = ()

    def _lost(self, error: InterlockError) -> HoldLostError:
        condition, lock = self._condition, self._lock
        return HoldLostError(
            f"{lock.kind} {lock.name!r} could not be acquired again after a wait for condition "
            f"{condition.name!r}: {error}",
            name=lock.name,
            reason="unreachable past validity",
        )

    def undo(self) -> Op[None]:
        """After an interruption: notify the next one if it was notified, and hold the lock again."""
        former, hold, session = self._former, self.hold, self._lock.session
        if former is None or hold is None:
            return
        if hold.over is not None or not self._member:
            self.give_up()
            return
        try:
            if former in hold.place.before:
                yield from self._release()
            if self._leaver in hold.place.before:
                leave = self._condition.leaves(self._member, PASS_ON)
                _ = yield from session.persist(leave, NEVER)
            self._condition.leave(hold)
            if not hold.entries:
                yield from self._hold_again(LOOK)
            hold.place.before = ()
        except (ClosedError, HoldLostError):
            raise
        except InterlockError as error:
            raise self._lost(error) from error

    def give_up(self) -> None:
        former, hold, session = self._former, self.hold, self._lock.session
        if former is None or hold is None:
            return
        if not (hold.entries or self._member):
            hold.over = ENDED
            session.queues.forget(hold)
            return
        before = hold.place.before
        if hold.entries:
            hold.place.before = ()
            if before:
                session.garbage.add(self._leaver)
                session.wake(None)
        else:
            former.entries.clear()
            self._condition.leave(hold)
            session.events.end_wait(hold, None)
            if former in before:
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
        self._hold = self._condition.held(self._owner)
        self._settled = self._count == 0

    def rest(self, failure: Exception | None) -> Op[None]:
        del failure  # `begin` sends nothing
        hold, session = self._hold, self._condition.session
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
        if not self._settled:
            self._settled = True
            condition, session = self._condition, self._condition.session
            session.garbage.add(condition.later(f"{self._count} "))
            session.wake(None)
