"""What waits at a gate: a latch or an event. All go on at once when it opens.

Each opening has a mark. A waiter remembers the mark that it found when it came, and goes on when the
gate is open or has another mark. So it does not miss an opening, even if the gate is closed again at
once.

Waiters of one client stand in one `Line`. A message rings the oldest one, who looks. What it found
stands in the line: whoever it lets go on needs no look of his own.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, ClassVar

from interlock._core.model.effects import NEVER, Eval, Op, Step
from interlock._core.objects.counter import Counter
from interlock._core.queue.places import POLL, news_for

if TYPE_CHECKING:
    from interlock._core.model.effects import Script
    from interlock._core.objects.counter import Call
    from interlock._core.queue.places import Line
    from interlock._core.scripts.gate import State

NOTE_KEPT = 60.0
"""Seconds, besides two looks, for which is told how the gate was opened last: all look by then."""


class Gate(Counter):
    """A gate, for one client.

    Attributes:
        query: the script that tells its state, and needs *seen*, of which the last may be missing.
        shown: whether operators are told who waits for it.
    """

    in_turn = False
    shown = True
    query: ClassVar[Script[State]]
    note_ttl = round(1000 * (NOTE_KEPT + 2 * POLL))

    def _more(self) -> tuple[str | int, ...]:
        return self.session.client_id, self.note_ttl

    def looking(self) -> Eval[State]:
        return Eval(self.query, (self.key, *self.beside), (self.idle,), spare_keys=self.spare)

    def lets(self, came: State, state: State, unseen: float) -> bool:
        """Return whether somebody who came when it was as *came* goes on, since it is as *state*.

        Nobody had looked for the *unseen* seconds before. It may raise.
        """
        del unseen
        return state.left <= 0 or (state.mark is not None and state.mark != came.mark)

    def prepare(self, until: float = NEVER) -> Op[None] | None:
        """Return what comes before the first look, and has time *until* then; None for nothing."""
        del until
        return None

    def wait(self, deadline: float) -> Waiting:
        return Waiting(self, deadline)

    def state(self) -> Op[State]:
        before = self.prepare()
        if before is not None:
            yield from before
        found: State = yield from self.session.persist(self.looking(), NEVER)
        return found


class Waiting(Step[bool]):
    """One wait at *gate* until *deadline*."""

    __slots__ = ("_before", "_call", "_came", "_deadline", "_gate", "_seen_at")

    def __init__(self, gate: Gate, deadline: float) -> None:
        self._gate, self._deadline = gate, deadline
        self._call: Call | None = None
        self._came: Any = None
        self._seen_at = 0.0
        self.result = False

    def begin(self) -> Eval[State] | None:
        """Return the first look, which everybody makes: an earlier opening is not for him."""
        self._before = self._gate.prepare(self._deadline)
        self._seen_at = self._gate.session.clock()
        return self._gate.looking() if self._before is None else None

    def done(self, answer: State) -> bool:
        self._came, self.result = answer, answer.left <= 0
        return self.result

    def rest(self, failure: Exception | None) -> Op[bool]:
        gate, session = self._gate, self._gate.session
        if self._came is None:
            if self._before is not None:
                yield from self._before
            call = self._call = gate.new_wait()
            call.sent_at, self._seen_at = self._seen_at, session.clock()
            look = session.attempt(gate.looking(), self._deadline, call, failure)
            if self.done((yield from look)):
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
            call.wait()
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
