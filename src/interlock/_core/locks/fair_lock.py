"""The fair lock: a plain lock's hash, and Redisson's queue of its waiters.

The queue is a list of holder ids, and a deadline for each of them in a sorted set. It decides whose
turn it is, across processes and languages, and within one client. So each waiter asks for itself,
and is told on a channel of its own.

    first try   joins the queue if it must wait; a single try takes no place, and overtakes nobody
    refused     hear one's own channel, and ask once that is sure
    told        ask; nobody starts without asking
    waiting     ask again at the time that the last answer told, and after a message: who is silent
                for `Options.fair_wait` counts as dead
    release     tells the first of the queue, or leaves it

All times in the queue are the server's.

Source: RedissonFairLock, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.locks.base import Lock
from interlock._core.model.effects import Eval, Listen, Op, Wait
from interlock._core.model.forms import HOLE, Form
from interlock._core.model.names import fair_queue, fair_timeouts
from interlock._core.queue.places import DEAF, POLL, Line, Place
from interlock._core.scripts.fair_lock import FAIR_ASK, FAIR_RELEASE, Queued
from interlock._core.scripts.replies import Grant, milliseconds

if TYPE_CHECKING:
    from interlock._core.model.hold import Hold
    from interlock._core.upkeep.session import Session


class Turn(Line):
    """What one waiter hears. No other one stands here, and its own wait is its timer."""

    def __init__(self, session: Session, lock: Lock, hold: Hold) -> None:
        super().__init__(session, lock)
        self.standing = f"{lock.channel}:{hold.holder}"
        self.channels = (self.standing,)
        self.look_at = 0.0

    def look_in(self, seconds: float) -> None:
        """Let it ask at once: it is first now, or its connection was lost."""
        del seconds
        self.look(self._client.clock())


class FairLock(Lock):
    """A lock that one owner at a time holds, in the order in which they asked."""

    kind = "fair lock"
    releases = FAIR_RELEASE
    enters = queues = False

    def __init__(self, session: Session, name: str, key: str, *, reentrant: bool = True) -> None:
        self.own_keys = fair_queue(key), fair_timeouts(key)
        self._silence = milliseconds(session.options.fair_wait)
        super().__init__(session, name, key, reentrant=reentrant)
        self.queue = ""  # that of the plain lock

    # The commands. A re-entry is the plain lock's.

    def call(self, hold: Hold, lease: float, depth: int) -> Eval[Any]:
        if depth > 1:
            return super().call(hold, lease, depth)
        return self._turn(lease, 0).of(hold)

    def trial(self, hold: Hold, until: float) -> Eval[Any]:
        """Return the script by which *hold* tries to get the lock; it joins if it may wait."""
        waits = 1 if until > self.session.clock() else 0
        return self._turn(hold.lease, waits).of(hold)

    def _turn(self, lease: float, waits: int) -> Form:
        which = "turn", lease, waits
        if (form := self._forms.get(which)) is None:
            args = (milliseconds(lease), HOLE, waits, self._silence, self.channel)
            form = self._forms.keep(which, self._form(FAIR_ASK, *args))
        return form

    def _leaving(self, depth: int, how: str) -> Form:
        del how
        return self._form(self.releases, HOLE, depth, self._silence, self.channel)

    # The steps of an acquire.

    def granted(self, hold: Hold, answer: Any) -> bool:
        if answer.__class__ is Grant:
            return super().granted(hold, answer)
        if answer.__class__ is Queued:
            place = hold.place or self._stand(hold)  # first: this is what must be given back
            place.sent, line, session = hold.sent_at, place.line, self.session
            longest = DEAF if line.deaf else POLL
            line.look_at = session.clock() + min(answer, longest * (0.75 + session.random() / 4))
        hold.asking = False
        return False

    def _stand(self, hold: Hold) -> Place:
        line = Turn(self.session, self, hold)
        place = line.waiters[hold] = hold.place = Place(line)
        self.session.queues.places[hold.number] = hold
        return place

    def wait(self, hold: Hold, deadline: float) -> Op[bool]:
        place, clock = hold.place or self._stand(hold), self.session.clock
        line = place.line
        while True:
            if not line.ready:
                yield from Listen(line)
            told, now = place.take(), clock()
            if now >= deadline and (told is None or hold.valid_until):
                return False  # without a valid grant: answers take longer than the lease
            if told is None and now < line.look_at:
                yield from Wait(place, min(deadline, line.look_at))
            elif self.granted(hold, (yield from self.attempt(hold, deadline, None))):
                return True
