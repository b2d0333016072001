"""The counting semaphore: a counter, a message, and whoever asks first.

Its state is a string, the number of free permits. Nobody owns a permit: anyone may release, and the
permits of a killed process are gone until somebody puts them back. If the user's code names the
number of permits, each call has it: whoever finds no semaphore makes it with that number. What was
taken of a lost number is among the new ones, so a release that makes it adds none.

Waiters of one client stand in one `Line`, in order. A message rings the oldest one, who asks. The
answer tells how many are left: the oldest who wants no more than that is rung next. So a newcomer
does not ask while others wait, unless it tries only once.

The number does not tell how many are taken. So a second key has the sum of free and taken ones, as
our clients have set it. If Java has set the number, the sum is not known, and cannot be set.

Source: RSemaphore, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from interlock._core.locks.errors import out_of_time
from interlock._core.model.effects import NEVER, Eval, Op, R, Step
from interlock._core.model.hold import OPEN
from interlock._core.model.names import semaphore_total
from interlock._core.model.replication import Replication
from interlock._core.objects.counter import Call
from interlock._core.objects.number import PermitNumber, check_permits
from interlock._core.queue.places import news_for
from interlock._core.scripts.replies import LOOK
from interlock._core.scripts.semaphore import SEMAPHORE_ACQUIRE, SEMAPHORE_CHANGE, Numbers
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from interlock._core.model.effects import Script
    from interlock._core.objects.counter import Carried
    from interlock._core.queue.places import Line

ALL = "all"
"""Stands for all permits that are free."""
TAKE, TELL = "take", "tell"
"""Ways to acquire: TELL tells the numbers in any case."""


def _any_taken(answer: object) -> bool:
    """Return whether *answer* to an acquire says that permits were taken."""
    return answer.left >= 0 if isinstance(answer, Numbers) else isinstance(answer, int)


class Semaphore(PermitNumber):
    """One semaphore, for one client; arguments as `Counter`."""

    kind = "semaphore"
    changes, spare, besides = SEMAPHORE_CHANGE, 1, (semaphore_total,)

    # The commands.

    def script(self, how: str) -> Script[Any]:
        acquires = how in (TAKE, TELL)
        return (SEMAPHORE_ACQUIRE if acquires else SEMAPHORE_CHANGE)[self.session.publish]

    def _more(self) -> tuple[str | int, ...]:
        return (self.makes,)

    def asking(self, call: Call, permits: int | str) -> Eval[Any]:
        """Return the script by which *call* takes *permits*; replicas are asked about what it took."""
        tells = permits == ALL or self.unset
        made = self.form(TELL if tells else TAKE, permits).of(call)
        policy = self.session.replicas
        if policy is not None:
            made = made.anew()
            made.replication = Replication(policy, repr(self), _any_taken, NEVER)
        return made

    def keep(self, call: Call, permits: int, entry: object) -> Call:
        """Return what a block has whose *call* took *permits*; *entry* is the block's."""
        has = Call().begin(self, call.request, self._span)
        has.finish = self.form("0", permits)
        has.wants, has.valid_until, has.since = permits, NEVER, self.session.clock()
        self.session.calls[has] = None
        has.entries = [OPEN, entry]
        return has

    # What users ask.

    def acquire(
        self, permits: int, deadline: float, timeout: float | None = None, entry: object = None
    ) -> Taking[bool]:
        """Return the step that takes *permits* together, waiting until *deadline*.

        AcquireTimeoutError tells the *timeout*; without one, False is returned. The *entry* is of the
        block that they are for; without one, anybody may give them back.

        Source:
            RSemaphore.acquire and tryAcquire.
        """
        step: Taking[bool] = Taking()
        return step.of(self, check_permits(permits), deadline, timeout, entry)

    def release(self, permits: int, how: str = "1") -> Carried[bool]:
        """Return the step that gives *permits* back, whether or not the caller has acquired them.

        The semaphore is made if it is missing; with *how* ``"0"`` it is not, and the answer False.

        Source:
            RSemaphore.release and releaseIfExists.
        """
        permits = check_permits(permits)
        if self.unset:
            how = "new"  # this client has acquired none
            self.note_named()
        return self.change(how, permits)

    def unknown_total(self) -> ConfigError:
        """Return the error for a number that cannot be set."""
        return ConfigError(
            f"semaphore {self.name!r} was set up by another program, so nobody knows how many "
            "of its permits are taken: use add_permits(difference), or delete() it first"
        )

    def drain_permits(self) -> Draining:
        """Return the step that takes all permits that are free, and tells how many.

        Source:
            RSemaphore.drainPermits.
        """
        return Draining().of(self, ALL, 0.0, None, None)

    def available_permits(self) -> Op[int]:
        call = self.new_call()
        asks = self.form(TELL, 0).of(call)
        found: Numbers = yield from self.session.persist(asks, NEVER)
        self.settle(call)
        self.warn(found, 0, waits=False)
        return found.free or 0

    def warn(self, found: Numbers, wanted: int, *, waits: bool) -> None:
        """Warn, once each, if the server has another number, too few of them, or none at all."""
        # If Java has set the number, at least those exist that are free.
        self.compare(max(found.total or 0, found.free or 0), exact=found.total is not None)
        if found.left < 0:
            self.warn_too_many(wanted, self.number if found.total is None else found.total)
            if waits and found.free is None and self.number is None and self.first():
                self.warn_missing()


class Taking(Step[R]):
    """An acquire of some permits; the result is whether they were taken.

    Attributes:
        has: what its block has to give back; None if it is for no block.
    """

    __slots__ = (
        "_call", "_deadline", "_entry", "_permits", "_semaphore", "_timeout", "has",
    )  # fmt: skip
    result: Any

    def of(
        self,
        semaphore: Semaphore,
        permits: Any,
        deadline: float,
        timeout: float | None,
        entry: object,
    ) -> Self:
        """Begin; the arguments are those of `Semaphore.acquire`."""
        self._semaphore, self._permits, self._deadline = semaphore, permits, deadline
        self._timeout, self._entry = timeout, entry
        self._call: Call | None = None
        self.has: Call | None = None
        self.result = False
        return self

    def begin(self) -> Eval[Any] | None:
        """Return the first try, unless others of this client wait."""
        semaphore, session = self._semaphore, self._semaphore.session
        call = self._call = semaphore.new_call()
        session.calls[call] = None
        if session.lines:
            line = session.lines.get(semaphore.standing)
            if line is not None and line.waiters and self._deadline > session.clock():
                return None
        call.ask(session.clock())
        return semaphore.asking(call, self._permits)

    def done(self, answer: Any) -> bool:
        semaphore, call = self._semaphore, self._call
        assert call is not None
        if answer.__class__ is Numbers:
            waits = self._deadline > semaphore.session.clock()
            semaphore.warn(answer, self._permits, waits=waits)
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

    def rest(self, failure: Exception | None) -> Op[Any]:
        call, session = self._call, self._semaphore.session
        assert call is not None
        line = session.lines.get(self._semaphore.standing)
        stands = not call.sent_at and line is not None and line.waiters
        if (failure is not None or not call.sent_at) and not stands:
            made = self._semaphore.asking(call, self._permits)
            if self.done((yield from session.attempt(made, self._until(), call, failure))):
                return self.result
        if session.clock() < self._deadline and (yield from self._wait(call)):
            return True
        session.give_up(call)
        if not call.resent:
            self._semaphore.settle(call)
        if self._timeout is None:
            return False
        semaphore = self._semaphore
        raise out_of_time(semaphore.kind, semaphore.name, self._permits, self._timeout)

    def _until(self) -> float:
        """Return when to give up a try: its key outlives only copies of `outage_timeout`."""
        session = self._semaphore.session
        return min(self._deadline, session.clock() + session.options.outage_timeout)

    def _wait(self, call: Call) -> Op[bool]:
        """Stand in line, and ask when it is rung; return whether the permits were taken."""
        semaphore, session = self._semaphore, self._semaphore.session
        call.wait(self._permits)
        came = session.queues.stand(call)
        if any(each is not call and each.wants <= call.wants for each in _calls(came.line)):
            # One in front of it asks first; else it may have come too late to hear.
            came.sent = 1.0
        while (yield from news_for(call, self._deadline)) is not None:
            place = call.place
            assert place is not None
            line, place.sent = place.line, 1.0
            made = semaphore.asking(call, self._permits)
            answer = yield from session.attempt(made, self._until(), call)
            left, free = (
                (answer, answer) if answer.__class__ is int else (answer.left, answer.free or 0)
            )
            if self.done(answer):
                session.queues.forget(call)  # first: a message may come just now
                if place.told is LOOK:
                    line.look(session.clock())
                elif left:
                    _ring(line, left)
                return True
            session.queues.put_off(line, NEVER)
            if semaphore.idle:
                line.look_in(semaphore.idle / 4000)
            _ring(line, free)
        return False

    def give_up(self) -> None:
        semaphore, call = self._semaphore, self._call
        if call is None:
            return
        if not self.result:
            if self.has is not None:  # a signal has come before the result
                semaphore.session.calls.pop(self.has, None)
            semaphore.session.give_up(call)
            return
        semaphore.session.queues.forget(call)  # a signal has come before it left its line
        if self.has is None:
            self.has = semaphore.keep(semaphore.new_call(), self._permits, self)
        self.has.entries.clear()
        semaphore.session.give_up(self.has)


class Draining(Taking[int]):
    """An acquire of all permits that are free; the result is how many these were."""

    __slots__ = ()

    def done(self, answer: Any) -> bool:
        self._permits = answer.free or 0  # what is given back
        _ = super().done(answer)
        self.result = self._permits
        return True

    def rest(self, failure: Exception | None) -> Op[Any]:
        """Ask again after *failure*, as long as any call may take that changes a number."""
        call, session = self._call, self._semaphore.session
        assert call is not None
        made = self._semaphore.asking(call, self._permits)
        _ = self.done((yield from session.attempt(made, NEVER, call, failure)))
        return self.result


def _ring(line: Line, free: int) -> None:
    """Let the oldest of *line* ask that wants no more than is *free*."""
    for call in _calls(line):
        if call.place is not None and call.wants <= free:
            call.place.tell(LOOK)
            return


def _calls(line: Line) -> list[Call]:
    return [each for each in list(line.waiters) if isinstance(each, Call)]
