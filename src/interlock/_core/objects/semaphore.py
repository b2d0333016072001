"""The counting semaphore: a counter, a message, and whoever asks first.

Its state is a string, the number of free permits. Nobody owns a permit: anyone may release, and the
permits of a killed process are gone until somebody puts them back. If the user's code names the
number of permits, each call has it: whoever finds no semaphore makes it with that number. What was taken of a lost number is among the new ones, so a release that makes it adds none.

Waiters of one client stand in one `Line`, in order. A message rings the oldest one, who asks. The
answer tells how many are left: the oldest who wants no more than that is rung next. So a newcomer
does not ask while others wait, unless it tries only once.

The number does not tell how many are taken. So a second key has the sum of free and taken ones, as
our clients have set it. If Java has set the number, the sum is not known, and cannot be set.

Source: RSemaphore, Redisson 4.7.0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, Self

from interlock._core.locks.errors import out_of_time
from interlock._core.model.effects import NEVER, Eval, Op, Step
from interlock._core.model.forms import HOLE, Form
from interlock._core.model.hold import OPEN
from interlock._core.model.names import semaphore_channel, semaphore_total
from interlock._core.objects.counter import Call, Carried, Counter
from interlock._core.objects.named import Named
from interlock._core.queue.waiting import news_for
from interlock._core.scripts import semaphore as scripts
from interlock._core.scripts.replies import LOOK
from interlock._core.scripts.semaphore import Numbers
from interlock.errors import ConfigError
from interlock.options import check_number

if TYPE_CHECKING:
    from interlock._core.queue.places import Line
    from interlock._core.upkeep.session import Session

MAX_PERMITS = 2**31 - 1
"""The largest number that Java can read: it uses an int."""


def check_permits(permits: object, least: int = 1) -> int:
    """Return *permits* if it is a number of permits.

    Raises:
        TypeError: unless it is an int.
        ConfigError: unless it is *least* to `MAX_PERMITS`.
    """
    if type(permits) is int and least <= permits <= MAX_PERMITS:
        return permits  # at once: most calls end here
    return check_number(permits, "permits", least, MAX_PERMITS)


def _any_taken(answer: object) -> bool:
    """Return whether *answer* to an acquire or a drain says that permits were taken."""
    return answer.left >= 0 if isinstance(answer, Numbers) else isinstance(answer, int)


class Semaphore(Counter):
    """One semaphore, for one client.

    Args:
        session: the client's state.
        name: what the user calls it.
        key: of the number of free permits.
        permits: how many there are if there is no such semaphore; None to make none.
        named: what the client knows of such numbers.
        idle: seconds after its last use when it ends; 0 for never.
    """

    kind = "semaphore"

    def __init__(
        self,
        session: Session,
        name: str,
        key: str,
        permits: int | None = None,
        named: Named | None = None,
        idle: float = 0.0,
    ) -> None:
        super().__init__(session, name, key, idle)
        self.permits = None if permits is None else check_permits(permits, 0)
        self.named = named or Named()
        self.channel, self._total = semaphore_channel(key), semaphore_total(key)
        self._makes = "" if self.permits is None else str(self.permits)

    # The commands; each is made once for each key of requests.

    def _acquiring(self, permits: int, tell: int, request: str) -> Form:
        script = scripts.SEMAPHORE_ACQUIRE[self.session.publish]
        args = (HOLE, permits, self.ttl, self._makes, self.idle, self.channel, tell)
        return Form(script, (self.key, request, self._total), args, 1)

    def _releasing(self, permits: int, how: str, request: str) -> Form:
        script = scripts.SEMAPHORE_RELEASE[self.session.publish]
        args = (HOLE, permits, self.ttl, self._makes, self.idle, self.channel, how)
        return Form(script, (self.key, request, self._total), args, 1)

    def _undoing(self, request: str) -> Form:
        script = scripts.SEMAPHORE_UNDO[self.session.publish]
        return Form(script, (self.key, request), (HOLE, self.ttl, self.channel))

    def _draining(self, request: str) -> Form:
        args = (HOLE, self.ttl, self._makes, self.idle)
        return Form(scripts.SEMAPHORE_DRAIN, (self.key, request, self._total), args, 1)

    def _change(self, how: str, permits: int, spare: int = 1) -> Carried[bool]:
        def make(request: str) -> Form:
            args = (HOLE, self.ttl, how, permits, self.idle, self.channel)
            script = scripts.SEMAPHORE_CHANGE[self.session.publish]
            return Form(script, (self.key, request, self._total), args, spare)

        return self.carried((how, permits), make)

    def undoing(self, call: Call) -> Form:
        """Return what gives back what *call* took, and lets a copy of it do nothing."""
        return self.form(call, ("undo",), self._undoing)

    def asking(self, call: Call, permits: int) -> Eval[Any]:
        """Return the script by which *call* takes *permits*."""
        tell = int(self._is_new())
        form = self.form(call, (permits, tell), partial(self._acquiring, permits, tell))
        return self.confirmed(form.of(call), _any_taken)

    def draining(self, call: Call) -> Eval[Any]:
        """Return the script by which *call* takes all that are free."""
        return self.confirmed(self.form(call, ("drain",), self._draining).of(call), _any_taken)

    def keep(self, call: Call, permits: int, entry: object) -> Call:
        """Return what a block has whose *call* took *permits*; *entry* is the block's."""
        has = Call().begin(self, call.request, self._span)
        has.finish = self.form(call, ("0", permits), partial(self._releasing, permits, "0"))
        has.wants, has.valid_until, has.since = permits, NEVER, self.session.clock()
        self.session.calls[has] = None
        has.entries = [OPEN, entry]
        return has

    # What users ask.

    def acquire(
        self,
        permits: int,
        deadline: float,
        timeout: float | None = None,
        entry: object = None,
    ) -> Taking:
        """Return the step that takes *permits* together, waiting until *deadline*.

        Args:
            permits: how many.
            deadline: on the session's clock; if it has passed, there is one try.
            timeout: what AcquireTimeoutError tells that was allowed; None to return False instead.
            entry: of the block that they are for; None if anybody may give them back.

        Source:
            RSemaphore.acquire and tryAcquire.
        """
        return Taking().of(self, check_permits(permits), deadline, timeout, entry)

    def release(self, permits: int, how: str = "1") -> Carried[bool]:
        """Return the step that gives *permits* back, whether or not the caller has acquired them.

        The semaphore is made if it is missing; with *how* ``"0"`` it is not, and the answer False.

        Source:
            RSemaphore.release and releaseIfExists.
        """
        permits = check_permits(permits)
        if self._is_new():
            how = "new"  # this client has acquired none
        return self._given(permits, how)

    def add_permits(self, permits: int) -> Carried[bool]:
        """Return the step that adds *permits* for good, or takes them away when negative.

        Source:
            RSemaphore.addPermits.
        """
        permits = check_permits(permits, -MAX_PERMITS)
        if permits == 0:
            raise ConfigError("adding 0 permits changes nothing; give a number above or below 0")
        return self._given(permits, "add")

    def _given(self, permits: int, how: str) -> Carried[bool]:
        make = partial(self._releasing, permits, how)
        return (Given if self._is_new() else Carried)(self, (how, permits), make, None)

    def _is_new(self) -> bool:
        """Return whether this client has not used the number that its code names."""
        return self.permits is not None and not self.named.known(self.key, self.permits)

    def note(self) -> None:
        """Note that this client has used the number that its code names."""
        if self.permits is not None:
            self.named.note(self.key, self.permits)

    def set_permits(self, permits: int) -> Carried[bool]:
        """Return the step that sets the number of all; False if nobody knows what is taken."""
        permits = check_permits(permits, 0)
        self.note()  # another number than the named one is meant from now on
        return self._change("set", permits, spare=0)

    def unknown_total(self) -> ConfigError:
        """Return the error for a number that cannot be set."""
        return ConfigError(
            f"semaphore {self.name!r} was set up by another program, so nobody knows how many "
            "of its permits are taken: use add_permits(difference), or delete() it first"
        )

    def try_set_permits(self, permits: int) -> Carried[bool]:
        """Return the step that makes the semaphore with *permits* unless it exists.

        Source:
            RSemaphore.trySetPermits.
        """
        permits = check_permits(permits, 0)
        return self._change("make", permits)

    def drain_permits(self) -> Draining:
        """Return the step that takes all permits that are free, and tells how many.

        Source:
            RSemaphore.drainPermits.
        """
        return Draining(self)

    def delete(self) -> Carried[bool]:
        """Return the step that removes the semaphore, and tells whether there was one.

        Source:
            RSemaphore.delete.
        """
        return self._change("delete", 0)

    def available_permits(self) -> Op[int]:
        """Return how many permits are free; one round trip."""
        script, keys = scripts.SEMAPHORE_QUERY[self.session.publish], (self.key, self._total)
        call = Eval(script, keys, (self._makes, self.idle, self.channel), spare_keys=1)
        found: Numbers = yield from self.session.persist(call, NEVER)
        self.compare(found, 0, waits=False)
        return found.free or 0

    def compare(self, found: Numbers, wanted: int, *, waits: bool) -> None:
        """Warn, once each, if the server has another number, too few of them, or none at all."""
        named, all_ = self.named, found.total
        if self.permits is not None and self._is_new():
            self.note()
            # If Java has set the number, at least those exist that are free.
            there = max(all_ or 0, found.free or 0)
            if there > self.permits or (all_ is not None and there < self.permits):
                named.differs(self.name, there, self.permits)
        if found.left >= 0:
            return
        most = self.permits if all_ is None else all_
        if most and wanted > most and named.first(self.key, wanted):
            named.too_many(self.kind, self.name, wanted, most)
        if waits and found.free is None and self.permits is None and named.first(self.key):
            named.missing(self.kind, self.name)


class Given(Carried[bool]):
    """The first use by this client of a number that its code names: what it makes is no other one."""

    __slots__ = ()

    def done(self, answer: Any) -> bool:
        """Take the answer."""
        self._note()
        return super().done(answer)

    def give_up(self) -> None:
        """Complete it without the caller."""
        if self.call.over is None:
            self._note()
        super().give_up()

    def _note(self) -> None:
        semaphore: Any = self.call.lock
        semaphore.note()


class Taking(Step[bool]):
    """An acquire of some permits; the result is whether they were taken.

    Attributes:
        has: what its block has to give back; None if it is for no block.
    """

    __slots__ = (
        "_call", "_deadline", "_entry", "_permits", "_semaphore", "_timeout", "has",
    )  # fmt: skip

    def of(
        self,
        semaphore: Semaphore,
        permits: int,
        deadline: float,
        timeout: float | None,
        entry: object,
    ) -> Self:
        """Begin; return this step. The arguments are those of `Semaphore.acquire`."""
        self._semaphore, self._permits, self._deadline = semaphore, permits, deadline
        self._timeout, self._entry = timeout, entry
        self._call: Call | None = None
        self.has: Call | None = None
        self.result = False
        return self

    def begin(self) -> Eval[Any] | None:
        """Return the first try, unless others of this client wait, or left something here."""
        semaphore, session = self._semaphore, self._semaphore.session
        call = self._call = semaphore.new_call()
        session.calls[call] = None
        if session.lines or session.unreleased:
            if session.garbage.of(semaphore.key):
                return None
            line = session.lines.get(semaphore.standing)
            if line is not None and line.waiters and self._deadline > session.clock():
                return None
        call.sent_at, call.asking = session.clock(), True
        return semaphore.asking(call, self._permits)

    def done(self, answer: Any) -> bool:
        """Take the answer; return whether the permits were taken."""
        semaphore, call = self._semaphore, self._call
        assert call is not None
        if answer.__class__ is Numbers:
            waits = self._deadline > semaphore.session.clock()
            semaphore.compare(answer, self._permits, waits=waits)
            if answer.left < 0:
                call.asking = False
                return False
        if self._entry is not None:
            self.has = semaphore.keep(call, self._permits, self._entry)
        self.result = True
        if self.has is None:
            semaphore.settle(call)
        semaphore.session.calls.pop(call, None)
        return True

    def rest(self, failure: Exception | None) -> Op[bool]:
        """Ask again after *failure*, or wait."""
        call, session = self._call, self._semaphore.session
        assert call is not None
        line = session.lines.get(self._semaphore.standing)
        stands = not call.sent_at and line is not None and line.waiters
        if (failure is not None or not call.sent_at) and not stands:
            made = self._semaphore.asking(call, self._permits)
            if self.done((yield from session.attempt(made, self._deadline, call, failure))):
                return True
        if session.clock() < self._deadline and (yield from self._wait(call)):
            return True
        session.give_up(call)
        if not call.unknown:
            self._semaphore.settle(call)
        if self._timeout is None:
            return False
        semaphore = self._semaphore
        raise out_of_time(semaphore.kind, semaphore.name, self._permits, self._timeout)

    def _wait(self, call: Call) -> Op[bool]:
        """Stand in line, and ask when it is rung; return whether the permits were taken."""
        semaphore, session = self._semaphore, self._semaphore.session
        call.wish, call.wants = session.outside.wish(semaphore.key), self._permits
        came = session.queues.stand(call)
        if any(each is not call and each.wants <= call.wants for each in _calls(came.line)):
            # One in front of it asks first; else it may have come too late to hear.
            came.sent = 1.0
        while (yield from news_for(call, self._deadline)) is not None:
            place = call.place
            assert place is not None
            line, place.sent = place.line, 1.0
            made = semaphore.asking(call, self._permits)
            answer = yield from session.attempt(made, self._deadline, call)
            free = answer if answer.__class__ is int else answer.free or 0
            if self.done(answer):
                self._ring_next(call, line, answer if answer.__class__ is int else answer.left)
                return True
            session.queues.put_off(line, NEVER)
            if semaphore.idle:
                line.look_in(semaphore.idle / 4000)
            _ring(line, free)
        return False

    def _ring_next(self, call: Call, line: Line, left: int) -> None:
        """Let the next one ask if there may be something for it: *left*, or what was told since."""
        session = self._semaphore.session
        session.queues.forget(call)  # first: a message may come just now
        if call.place is not None and call.place.told is LOOK:
            line.look(session.clock())
        elif left:
            _ring(line, left)

    def give_up(self) -> None:
        """Give back what was taken, or may still be; no I/O, and repeatable."""
        semaphore, call = self._semaphore, self._call
        if call is None:
            return
        if not self.result:
            if self.has is not None:  # a signal has come before the result
                semaphore.session.calls.pop(self.has, None)
            semaphore.session.give_up(call)
            return
        if self.has is None:
            fresh = semaphore.new_call()
            has = semaphore.keep(fresh, self._permits, self)
            self.has = has
        self.has.entries.clear()
        semaphore.session.give_up(self.has)


class Draining(Step[int]):
    """Takes all permits that are free."""

    __slots__ = ("_back", "_call", "_semaphore")

    def __init__(self, semaphore: Semaphore) -> None:
        self._semaphore, self._call = semaphore, semaphore.new_call()
        self.result = 0

    def begin(self) -> Eval[Any]:
        """Return the script."""
        call, session = self._call, self._semaphore.session
        session.calls[call] = None
        call.sent_at, call.asking = session.clock(), True
        return self._semaphore.draining(call)

    def done(self, answer: Any) -> bool:
        """Take the answer."""
        self.result = answer
        self._semaphore.session.calls.pop(self._call, None)
        return True

    def rest(self, failure: Exception | None) -> Op[int]:
        """Send it again after *failure*."""
        made = self._semaphore.draining(self._call)
        answer = yield from self._semaphore.session.persist(made, NEVER, self._call, failure)
        _ = self.done(answer)
        return self.result

    def give_up(self) -> None:
        """Give back what was taken, or may still be."""
        self._semaphore.session.give_up(self._call)


def _ring(line: Line, free: int) -> None:
    """Let the oldest of *line* ask that wants no more than is *free*."""
    for call in _calls(line):
        if call.place is not None and call.wants <= free:
            call.place.tell(LOOK)
            return


def _calls(line: Line) -> list[Call]:
    return [each for each in list(line.waiters) if isinstance(each, Call)]
