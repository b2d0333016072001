"""The local queues of waiters, and who is woken: passive, without a thread or a clock.

Theory. A release is announced on a channel, and every process with waiters hears it. All local
waiters of a channel share one subscription. If each asked the server, all but one would ask in
vain. So they stand in a queue, and only the one in front asks.

Rules:

* A wake-up sets the flag ``should_ask`` of the front waiter. The flag stays set until the waiter
  takes it. So a message that comes while the front waiter asks makes that waiter ask again.
* A waiter that leaves from the front passes the front on. The next waiter is woken, and makes the
  timed looks from now on. It asks at once, unless the one before left as the holder: then the lock
  is known to be taken.
* A waiter that is cancelled or out of time leaves like any other. Its wake-up is not lost with it.
* Waiters of one channel that wait for different things stand in different lines (`lines`). The
  front of each line asks by itself.
* A confirmed subscription counts as a message, because an earlier message may have been missed.
* A release may offer the lock to the front waiter instead of freeing it (`offer`). During an offer
  the waiter does not ask, and it may leave. If it leaves before it gets the lock, `conclude` tells
  the release. If it gets the lock before it leaves, `give_up` tells the waiter.
* Offers go on for as long as `PassPolicy` allows. Then the release goes to the first client in
  the server's queue.
* A client that waits for a plain, fenced or write lock, or for permits, has a `Place` in the
  server's queue: one for each line. `places` has them, and the channels that they need.

Prior art: trio's ``_parking_lot.py``; the lost wake-ups of asyncio.Lock (bpo-27585) and
asyncio.Semaphore (gh-90155).
"""

from __future__ import annotations

import re
from itertools import chain
from typing import TYPE_CHECKING

from interlock._core.queue.lines import channel_of, section
from interlock._core.queue.places import Place, Places
from interlock._core.queue.policy import COURTESY, PassPolicy
from interlock._core.queue.waiter import Claim, Waiter, Wish

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

    from interlock._core.queue.lines import Line
    from interlock._core.queue.places import Subscriptions
    from interlock._core.queue.waiter import Candidate

LONGEST_OFFER = 0.15
"""Seconds after which a waiter with an offer asks the server itself, if nothing else comes."""

SHARED = 0.0
"""The `Waiter.successor_look` of a waiter that took some permits: others may succeed at once.

If the client has a place in the server's queue, the server wakes the next waiter. Else the next
waiter asks at once, as with None.
"""
FOR_OTHERS = (b"00", b"01")
"""The messages that a lock is free for clients that are not in the server's queue.

Java reads them as the numbers 0 and 1. Of a read/write lock, they mean that the last reader (0) or
the writer (1) has released it.
"""
NEXT = b"0"
"""The message on a client's wake channel that the client is next."""
STARTS = b"="
"""How a message on a client's wake channel begins if a waiter of the client is the holder now.

The waiter's number follows, a colon, and the server's time in microseconds. What the waiter wanted
comes next: nothing, ":write", or ":token:" and the fencing token, a colon, and what the token
follows. For a leased permit, its id stands in the place of the number, and ":leased:1" at the end.
"""
_CLAIM = re.compile(
    STARTS + rb"(\d{1,20}):(\d{1,20})(?:(:write)|:token:(\d{1,20}):(epoch|clock|counter))?"
)
_PERMIT = re.compile(STARTS + rb"([0-9a-f]{32}):(\d{1,20}):(leased:1)")


def _claim(payload: bytes) -> Claim | None:
    """Read a message that makes a waiter the holder; None if it is another message."""
    found = _CLAIM.fullmatch(payload)
    if found is None:
        permit = _PERMIT.fullmatch(payload)
        if permit is None:
            return None
        id_, at, wanted = permit.groups()
        return Claim(int(at), id_.decode(), wanted=wanted.decode())
    digits, at, writes, token, source = found.groups()
    number = (digits + (writes or b"")).decode()
    if token is None:
        # Not by the class, whose `__new__` is a function in Python.
        claim = int(at), number, None, "", ""
        return tuple.__new__(Claim, claim)  # pyright: ignore[reportUnknownMemberType]
    return Claim(int(at), number, int(token), source.decode())


def _wake_front(queue: Iterable[Waiter]) -> None:
    """Wake the first of *queue*, which a signal handler may have emptied just now."""
    for front in [*queue][:1]:
        front.wake()


class Waiters(Places):
    """The queues of one client.

    Attributes:
        queues: the queues of all lines that have waiters.
    """

    def __init__(self, mutex: AbstractContextManager[object], subscriptions: Subscriptions) -> None:
        super().__init__(mutex, subscriptions)
        # A dict is the queue: ordered, and a waiter in the middle leaves in one step.
        self.queues: dict[Line, dict[Waiter, None]] = {}
        self._policies: dict[Line, PassPolicy] = {}

    def join(
        self, line: Line, wakeup: Callable[[], None], noted: list[Waiter] | None = None
    ) -> Waiter:
        """Stand at the end of the queue of *line*.

        Args:
            line: what is waited for.
            wakeup: called, from any thread, when there is something to look at.
            noted: the waiters of this operation. An operation stands in one queue at a time, so
                the earlier ones leave theirs. The list gets the waiter before it queues, so that
                an interruption can take it back.
        """
        waiter = Waiter(line, wakeup)
        if noted is not None:
            for earlier in noted:
                self.leave(earlier)
            noted.append(waiter)
        with self._mutex:
            queue = self.queues.get(line)
            if queue is None:
                # A queue is never empty: a newcomer would stand behind nobody.
                self.queues[line] = {waiter: None}
                waiter.front = True
                waiter.should_ask = self._open(waiter.line)
            else:
                queue[waiter] = None
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Leave the queue, and pass the front on; doing it twice changes nothing."""
        with self._mutex:
            waiter.departed = True
            queue = self.queues.get(waiter.line)
            if queue is None or waiter not in queue:
                return
            # The waiter is removed last: after an interruption all of this can be done again.
            if len(queue) == 1:
                self._end_line(waiter)
                return
            # If the client is not in the server's queue, the next must ask, or nobody wakes it.
            place = self.places.get(waiter.line)
            missing = place is not None and not place.taken
            if not waiter.front:
                if missing:
                    _wake_front(queue)
            else:
                successor = next(other for other in queue if other is not waiter)
                successor.front = True
                successor_look = waiter.successor_look
                if successor_look == SHARED:
                    successor_look = (
                        None if place is None else place.remaining
                    )  # the server wakes it
                successor.next_look = successor_look
                successor.wake(ask=successor_look is None or waiter.should_ask or missing)
            _ = queue.pop(waiter, None)

    def _end_line(self, waiter: Waiter) -> None:
        """Note that *waiter*, the only one in its line, leaves it. The mutex is held."""
        line = waiter.line
        self._close(line)
        _ = self._policies.pop(line, None)
        # Last: after an interruption all of this can be done again.
        _ = self.queues.pop(line, None)
        waiter.away = True

    def mend(self, waiter: Waiter) -> None:
        """Put *waiter* back into its queue, and make sure that somebody asks.

        A signal handler may have interrupted a step. If another thread changed the same queue
        meanwhile, the step may have lost the waiter. Signals may also have kept the waiter in front
        from leaving.
        """
        front = next(iter(self.queues.get(waiter.line, ())), waiter)
        if front.departed and front is not waiter:
            self.leave(front)
        with self._mutex:
            if waiter.departed or waiter.front:
                return
            queue = self.queues.get(waiter.line)
            if queue is None:
                self.queues[waiter.line] = {waiter: None}
                waiter.should_ask = self._open(waiter.line)
            else:
                queue.setdefault(waiter)
            front = next(iter(self.queues[waiter.line]))
            if not front.front:
                front.front = True
                front.wake()

    def has_waiters(self, line: Line) -> bool:
        """Return whether somebody waits here; a newcomer must not overtake that waiter."""
        return line in self.queues

    def begin_asking(self, waiter: Waiter, now: float) -> bool:
        """Note that *waiter* asks the server; the caller resets `Waiter.busy` afterwards.

        Return False if it must not ask, because the lock is being offered to it.
        """
        with self._mutex:
            if waiter.offered and now < waiter.offered_until:
                return False
            # The offer is late, or was interrupted. The reply tells whether it is the holder.
            waiter.offered = False
            waiter.busy = True
            return True

    def give_up(self, waiter: Waiter) -> bool:
        """End the wait of *waiter*; return whether it got what it waited for before that.

        It leaves its queue too, unless the client has a place on the server to give up first. The
        operation may go on for long, so those behind it must not wait for its end.
        """
        if waiter.away:
            return True
        with self._mutex:
            given = waiter.departed
            waiter.departed = True
        if waiter.line not in self.places:
            self.leave(waiter)
        return given

    def offer(self, line: Line, kind: type[object], now: float) -> Waiter | None:
        """Return the front waiter of *line*, which is to get a lock of *kind*.

        Return None if the lock is to be freed for all.

        After the server's answer, call `conclude` with the waiter, or `freed` if this returned
        None.
        """
        with self._mutex:
            queue = self.queues.get(line)
            if queue is None:
                return None
            policy = self._policies.setdefault(line, PassPolicy())
            waiter = next(iter(queue))
            hold = waiter.candidate
            if (
                hold is None
                or waiter.busy
                or waiter.offered
                or waiter.departed
                or type(hold.core) is not kind
            ):
                policy.end()
                return None
            if not policy.stays_here(len(queue), now):
                return None
            # From here on a command that makes it the holder may be under way.
            hold.offer()
            waiter.offered_until = now + LONGEST_OFFER
            waiter.offered = True
            return waiter

    def conclude(self, waiter: Waiter, accept: Callable[[], bool] | None) -> bool:
        """End an offer and wake its waiter; return whether that waiter has left meanwhile.

        Args:
            waiter: what `offer` returned.
            accept: marks the waiter's hold as held. None unless the server has certainly made it
                the holder: then the waiter must ask.
        """
        with self._mutex:
            offered, waiter.offered = waiter.offered, False
            departed = offered and waiter.departed
            try:
                if offered and accept is not None and not departed and accept():
                    waiter.departed = True
            finally:
                waiter.wake()
            return departed

    def freed(self, line: Line, ours: bool) -> None:
        """Wake the front of *line* after a release, or after a grant that gave up the place.

        Args:
            line: of the lock.
            ours: whether the front is to ask now.
        """
        with self._mutex:
            queue = self.queues.get(line)
            if queue is None:
                return
            front = next(iter(queue))
            if not ours:
                # In case the client is not in the server's queue after all, it asks soon.
                front.next_look = COURTESY
            front.wake(ask=ours)

    def notify(self, channel: str, payload: bytes | None = None) -> None:
        """Wake the front waiter of each line of *channel*.

        Args:
            channel: where a message came, or may have been missed.
            payload: the message; None for a confirmed subscription. A message of `FOR_OTHERS`
                says that others are to take the lock first. On a wake channel, a number above 0
                says how many milliseconds to wait first. What is behind a colon tells the line.
        """
        with self._mutex:
            woken = self._woken_by.get(channel)
            if woken is not None:
                claim = _claim(payload) if payload and payload[:1] == STARTS else None
                for whole in woken:
                    if claim is not None:
                        self._made_holder(whole, claim)
                    else:
                        self._called(whole, payload or b"")
                return
            for part in self._lines.get(channel, ()):
                front = next(iter(self.queues[part]))
                # A client with a place has several subscriptions. The confirmation of the last one,
                # its wake channel, stands for all. A reader asks even if others are to take the
                # lock first: it can read with them.
                others = payload is None or (payload in FOR_OTHERS and not front.shares)
                if not others or part not in self.places:
                    front.announced = front.announced or payload is not None
                    front.wake()
            subscription = self._queue_subscriptions.get(channel)
            if subscription is not None and payload is not None and payload not in FOR_OTHERS:
                # A newcomer may have been refused before the message, and be about to wait.
                for part in subscription.parts - self.queues.keys():
                    self.places[part].woken = True

    def _called(self, whole: str, payload: bytes) -> None:
        """Wake the waiters that a message on the wake channel of *whole* is for."""
        parts: Iterable[Line] = (whole,)
        patience = 0.0
        if payload != NEXT:
            parts, patience = self._meaning(whole, payload)
        for part in parts:
            place, queue = self.places.get(part), self.queues.get(part)
            if place is not None and (payload or queue is None):
                place.woken = True
                place.claim = None
            if queue is not None:
                front = next(iter(queue))
                if patience:
                    front.next_look = patience
                front.wake(ask=not patience)

    def _made_holder(self, whole: str, claim: Claim) -> None:
        """Tell the waiter of *claim* that it is the holder; if it has left, the front asks."""
        line = section(whole, claim.wanted) if claim.wanted else whole
        place, queue = self.places.get(line), self.queues.get(line)
        if place is not None:
            place.woken = True
            place.claim = claim
        if queue is None:
            return
        # A signal handler may come in anywhere, and take or leave a place itself.
        waiters = [*queue]
        for waiter in waiters:
            if waiter.candidate is not None and claim.is_for(waiter.candidate.holder):
                waiter.claim = claim
                waiter.should_ask = True
                waiter.wakeup()
                return
        _wake_front(waiters)

    def introduce(
        self,
        waiter: Waiter,
        candidate: Candidate | None,
        *,
        shares: bool,
        wish: Callable[[], Wish] | None = None,
    ) -> None:
        """Note that *candidate* may be given to *waiter*, which has just joined its queue.

        *shares* tells whether others may have the same at the same time, and *wish* returns what
        operators are told. The message of a claim may be faster than the reply to the refused
        request before it.
        """
        if wish is not None:
            waiter.wish = wish()
        with self._mutex:
            waiter.candidate, waiter.shares = candidate, shares
            place = self.places.get(waiter.line)
            claim = None if place is None else place.claim
            if candidate is not None and claim is not None and claim.is_for(candidate.holder):
                waiter.claim = claim

    def wishes(self) -> list[Wish]:
        """Return what operators are told of those who wait without a hold, oldest first."""
        # Copies: other threads queue and leave meanwhile.
        waiting = chain.from_iterable(map(list, list(self.queues.values())))
        found = [waiter.wish for waiter in waiting if waiter.wish is not None]
        return sorted(found, key=lambda wish: wish.since)

    def started(self, waiter: Waiter, holder: str) -> None:
        """Note that *waiter* began with the claim of *holder*, and end its wait.

        If it was not alone, and the front has no place now, the front must ask. The waiter itself
        leaves the line later then: the place may have to be given up first.
        """
        line = waiter.line
        with self._mutex:
            # A local pass may be under way too. It gives the same holder the lock once more, and
            # its answer must not count as that to a waiter that gave up.
            waiter.offered, waiter.departed = False, True
            place = self.places.get(line)
            if place is not None and place.holder == holder:
                place.left()
            queue = self.queues.get(line)
            if queue is None:
                return
            front = next(iter(queue))
            if front is waiter and len(queue) == 1:
                self._end_line(waiter)
                return
            hold = front.candidate
            behind = hold is not None and hold.holder != holder and not hold.placed
            if behind or front.shares:
                front.wake()

    def alone(self, line: Line) -> bool:
        """Return whether at most one waiter waits here for *line*."""
        return len(self.queues.get(line, ())) <= 1

    def vacate(
        self, line: Line, but: Waiter | None = None, holder: str = "", *, own: bool = False
    ) -> Place | None:
        """Return the place to give up, if nobody except *but* still waits here for *line*.

        The last waiter calls this before it leaves its local queue. So a newcomer asks the server
        anew. With *own*, the client stands there in the name of *holder*. Then the place ends in
        any case, and those who still wait here must ask.
        """
        place = self.places.get(line)
        if place is None or not (place.taken or own):
            return None
        with self._mutex:
            place = self.places.get(line)
            if place is None or not (place.taken or own):
                return None
            if not own and any(
                not waiter.departed and waiter is not but for waiter in self.queues.get(line, ())
            ):
                return None
            vacated = Place(channel_of(line), place.client)
            vacated.holder = holder if own else ""
            place.taken = place.bare = False
            place.holder = ""
            return vacated

    def serve_all(self, line: Line) -> None:
        """End the wait of all waiters in the queue of *line*: each got what it waits for."""
        with self._mutex:
            for waiter in self.queues.get(line, ()):
                waiter.departed = True
                waiter.wake(ask=False)

    def wake_all(self) -> None:
        """Wake every waiter of every channel: the client closes."""
        with self._mutex:
            for queue in [*self.queues.values()]:
                for waiter in [*queue]:
                    waiter.wake()

    def wake_fronts(self) -> None:
        """Wake the front of each queue: no message will."""
        with self._mutex:
            for queue in [*self.queues.values()]:
                _wake_front(queue)
