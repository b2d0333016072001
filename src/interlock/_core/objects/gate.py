"""What waits at a gate: a latch or an event. All go on at once when it opens.

Waiters of one client stand in one `Line`. A message rings the oldest one, who looks. What it found
stands in the line: whoever it lets go on needs no look of his own.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from interlock._core.model.effects import NEVER, Op, Step
from interlock._core.objects.counter import Call, Counter
from interlock._core.queue.places import POLL
from interlock._core.queue.waiting import news_for

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval
    from interlock._core.queue.places import Line

S = TypeVar("S")
NOTE_KEPT = 60.0
"""Seconds, besides two looks, for which is told how the gate was opened last: all look by then."""


class Gate(Counter, Generic[S]):
    """A gate, for one client; *S* is what the server tells of it."""

    in_turn = False
    shown = True
    """Whether operators are told who waits for it."""
    note_ttl = round(1000 * (NOTE_KEPT + 2 * POLL))

    @abstractmethod
    def looking(self) -> Eval[S]:
        """Return the script that tells its state."""

    @abstractmethod
    def is_open(self, state: S) -> bool:
        """Return whether nobody who comes and finds *state* has to wait."""

    @abstractmethod
    def lets(self, came: S, state: S, unseen: float) -> bool:
        """Return whether somebody who came when it was as *came* goes on, since it is as *state*.

        Nobody had looked for the *unseen* seconds before. It may raise.
        """

    def prepare(self) -> Op[None] | None:
        """Return what comes before the first look; None for nothing."""
        return None

    def wait(self, deadline: float) -> Waiting[S]:
        """Return the step that waits until it opens, or *deadline*; it tells whether it opened."""
        return Waiting(self, deadline)

    def state(self) -> Op[S]:
        """Ask for its state."""
        before = self.prepare()
        if before is not None:
            yield from before
        found: S = yield from self.session.persist(self.looking(), NEVER)
        return found


class Waiting(Step[bool], Generic[S]):
    """One wait at *gate* until *deadline*."""

    __slots__ = ("_call", "_came", "_deadline", "_gate", "_seen_at")

    def __init__(self, gate: Gate[S], deadline: float) -> None:
        self._gate, self._deadline = gate, deadline
        self._call: Call | None = None
        self._came: Any = None
        self._seen_at = 0.0
        self.result = False

    def begin(self) -> Eval[S] | None:
        """Return the first look, which everybody makes: an earlier opening is not for him."""
        gate = self._gate
        if gate.prepare() is not None:
            return None
        self._seen_at = gate.session.clock()
        return gate.looking()

    def done(self, answer: Any) -> bool:
        """Take what was found; return whether the gate is open."""
        self._came = answer
        self.result = self._gate.is_open(answer)
        return self.result

    def rest(self, failure: Exception | None) -> Op[bool]:
        """Look, or look again after *failure*; and wait."""
        gate, session = self._gate, self._gate.session
        if self._came is None:
            before = gate.prepare() if failure is None else None
            if before is not None:
                yield from before
            call = self._call = gate.new_wait()
            call.sent_at, self._seen_at = self._seen_at, session.clock()
            if self.done(
                (yield from session.attempt(gate.looking(), self._deadline, call, failure))
            ):
                return True
        if session.clock() < self._deadline:
            self.result = yield from self._wait()
        self.give_up()
        return self.result

    def _wait(self) -> Op[bool]:
        gate, session = self._gate, self._gate.session
        call = self._call = self._call or gate.new_wait()
        call.asking = False
        session.calls[call] = None
        if gate.shown:
            call.wish = session.outside.wish(gate.key)
        session.queues.stand(call)
        while (yield from news_for(call, self._deadline)) is not None:
            if (yield from self._look(call)):
                return True
        return False

    def _look(self, call: Call) -> Op[bool]:
        """Look, unless somebody has found what lets this one go on; return whether it goes on."""
        gate, session, place = self._gate, self._gate.session, call.place
        assert place is not None
        line, place.sent = place.line, 1.0
        if self._may_go(line):
            return True
        sent_at = session.clock()
        state = yield from session.attempt(gate.looking(), self._deadline, call)
        call.asking, unseen = False, session.clock() - max(line.found[0], self._seen_at)
        line.found = sent_at, state, unseen
        session.queues.put_off(line, NEVER)
        if gate.idle:
            line.look_in(gate.idle / 4000)
        goes = True
        try:
            goes = gate.lets(self._came, state, unseen)
        finally:
            if goes:
                line.look_all()  # what lets this one go on, or what it is told, may be for others
        return goes

    def _may_go(self, line: Line) -> bool:
        """Return whether what somebody else has found lets this one go on."""
        at, state, unseen = line.found
        return at > self._seen_at and self._gate.lets(self._came, state, unseen)

    def give_up(self) -> None:
        """Wait no more; the next one looks if this one was about to."""
        if self._call is not None:
            self._gate.session.give_up(self._call)
            self._gate.session.queues.forget(self._call)
