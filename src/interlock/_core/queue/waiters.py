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
* Waiters of one channel that wait for different things stand in different sections. The front of
  each section asks by itself.
* A confirmed subscription counts as a message, because an earlier message may have been missed.
* A release may offer the lock to the front waiter instead of freeing it (`offer`). During an offer
  the waiter does not ask, and it may leave. If it leaves before it gets the lock, `conclude` tells
  the release. If it gets the lock before it leaves, `give_up` tells the waiter.
* Offers go on for as long as `PassPolicy` allows. Then the release goes to the first client in
  the server's queue.
* A client that waits for a plain, fenced or write lock, or for permits, has a `Place` in the
  server's queue: one for each section. It also subscribes to a channel of its own, whose messages
  tell that it is next (`QueueSubscription`). It keeps the subscription for a while. So a client
  that waits often need not subscribe each time.

Prior art: trio's ``_parking_lot.py``; the lost wake-ups of asyncio.Lock (bpo-27585) and
asyncio.Semaphore (gh-90155).
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Protocol

from interlock._core.model import names
from interlock._core.queue.policy import COURTESY, PassPolicy
from interlock._core.queue.waiter import Claim, Waiter

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from contextlib import AbstractContextManager

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

The waiter's number follows, a colon, and the server's time in microseconds. With a fencing token,
another colon, the token, a colon, and what the token follows come next; for a writer, ":write".
"""
_CLAIM = re.compile(
    STARTS + rb"(\d{1,20}):(\d{1,20})(?:(:write)|:(\d{1,20}):(epoch|clock|counter))?"
)
IDLE_LOOKS = 1
"""How many looks of the subscriber an idle channel outlasts; the next one unsubscribes."""

_SECTION = "\ud800"
"""A lone surrogate: no channel name has it, because it cannot be sent."""


def section(channel: str, wanted: object) -> str:
    """Return the section of *channel* for waiters that want *wanted*; for 1, *channel* itself."""
    return channel if wanted == 1 else f"{channel}{_SECTION}{wanted}"


def line_of(channel: str, key: str) -> str:
    """Return the section of *channel* for those who wait for *key*; most often *channel* itself.

    Names that differ only in braces have one channel. Their waiters wait for different things.
    """
    return section(channel, key) if names.shares_channels(key) else channel


def whole_of(channel: str) -> str:
    """Return the channel that *channel* is a section of, or *channel* itself."""
    return channel.partition(_SECTION)[0]


def _claim(payload: bytes) -> Claim | None:
    """Read a message that makes a waiter the holder; None if it is another message."""
    found = _CLAIM.fullmatch(payload)
    if found is None:
        return None
    digits, at, writes, token, source = found.groups()
    number = (digits + (writes or b"")).decode()
    if token is None:
        return Claim(int(at), number)
    return Claim(int(at), number, int(token), source.decode())


class Subscriptions(Protocol):
    """Subscribes to channels; both calls return at once."""

    def subscribe(self, channel: str) -> None:
        """Ask for the messages of *channel*."""
        ...

    def unsubscribe(self, channel: str) -> None:
        """Ask for no more messages of *channel*."""
        ...


class QueueSubscription:
    """The subscriptions of a client that stands in the server's queue of one lock or semaphore.

    They last while somebody waits here, and a while longer. So a client that waits often need not
    subscribe each time.

    Attributes:
        wake: the channel on which the client hears that it is next.
        channels: all channels to subscribe to. The confirmation of the last one stands for all.
        counted: whether scripts count the client as one that only needs to hear of its turn. It is
            False once somebody waited here without a place: then the client must hear each release.
        heard: whether the channels were subscribed to.
        idle: how often the subscriber has looked since somebody waited here.
        parts: the sections in which the client has a place.
    """

    __slots__ = ("channels", "counted", "heard", "idle", "parts", "wake")

    def __init__(self, channel: str, client: str, *, counted: bool) -> None:
        self.wake = names.wake_channel(channel, client)
        self.channels: tuple[str, ...] = (channel, names.waiting_channel(channel), self.wake)
        self.heard, self.counted = False, True
        self.idle = 0
        self.parts: set[str] = set()
        if not counted:
            self.discount()

    def discount(self) -> None:
        """Hear of each release from the next subscription on."""
        self.counted = False
        self.channels = (self.channels[0], self.wake)


class Place:
    """A client's place in the server's queue, for a section.

    It lasts as long as its `QueueSubscription`.

    Attributes:
        client: its name in the queue, which begins with the client's id.
        queue: the key of the queue.
        taken: whether the client may stand in the queue.
        others_wait: whether the newest request asked to stay there after it is granted.
        remaining: seconds that remained of the holder's lease when the client was refused last.
        woken: whether a wake-up came while nobody waited here.
        claim: a message that came then, since the newest request.
        holder: the holder id in whose name the client stood there last; empty if in its own.
        bare: whether it may stand there in its own name.
    """

    __slots__ = (
        "bare", "claim", "client", "holder", "others_wait", "queue", "remaining", "taken", "woken",
    )  # fmt: skip

    def __init__(self, channel: str, client: str) -> None:
        self.client = client
        self.queue = names.waiting_queue(channel)
        self.taken = self.others_wait = self.woken = self.bare = False
        self.remaining = 0.0
        self.holder = ""
        self.claim: Claim | None = None

    def stand(self, others_wait: bool, holder: str = "") -> None:
        """Note a request that puts the client into the queue, to stay if *others_wait*.

        If *holder* is given, the client stands there in its name.
        """
        self.taken, self.woken, self.others_wait, self.holder = True, False, others_wait, holder
        self.claim = None
        self.bare = self.bare or not holder

    def granted(self) -> None:
        """Note that the newest request was granted."""
        self.taken = self.bare = self.others_wait
        self.holder = ""

    def left_for(self, holder: str) -> None:
        """Note that *holder* has got the lock, if the client stood there in its name."""
        if self.holder == holder:
            self.taken, self.holder = self.bare, ""


class Waiters:
    """The queues of all channels of one client.

    Args:
        mutex: guards the queues, which any thread may use.
        subscriptions: hears when a channel gets its first waiter, and when nobody needs it any
            more.

    Attributes:
        queues: the queues of all channels, or sections, that have waiters.
        hearing: False while there is no subscriber connection, so that messages may be missed; the
            driver sets it.
        places: the client's places in the server's queues, by section.
        allows_places: whether places are possible; False if the server refused their channels.
    """

    def __init__(self, mutex: AbstractContextManager[object], subscriptions: Subscriptions) -> None:
        self._mutex = mutex
        self._subscriptions = subscriptions
        self.hearing = False
        # A dict is the queue: ordered, and a waiter in the middle leaves in one step.
        self.queues: dict[str, dict[Waiter, None]] = {}
        self._sections: dict[str, list[str]] = {}
        self.places: dict[str, Place] = {}
        self._queue_subscriptions: dict[str, QueueSubscription] = {}
        self.allows_places = True
        # The objects whose messages come on a wake channel: a lock and a read/write lock of one
        # name have the same.
        self._woken_by: dict[str, dict[str, None]] = {}
        self._policies: dict[str, PassPolicy] = {}

    def join(
        self, channel: str, alarm: Callable[[], None], noted: list[Waiter] | None = None
    ) -> Waiter:
        """Stand at the end of the queue of *channel*.

        Args:
            channel: what is waited for.
            alarm: called, from any thread, when there is something to look at.
            noted: the waiters of this operation. An operation stands in one queue at a time, so
                the earlier ones leave theirs. The list gets the waiter before it queues, so that
                an interruption can take it back.
        """
        waiter = Waiter(channel, alarm)
        if noted is not None:
            for earlier in noted:
                self.leave(earlier)
            noted.append(waiter)
        with self._mutex:
            queue = self.queues.get(channel)
            if queue is None:
                # A queue is never empty: a newcomer would stand behind nobody.
                self.queues[channel] = {waiter: None}
                waiter.front = True
                self._open(waiter)
            else:
                queue[waiter] = None
        return waiter

    def leave(self, waiter: Waiter) -> None:
        """Leave the queue, and pass the front on; doing it twice changes nothing."""
        with self._mutex:
            waiter.departed = True
            queue = self.queues.get(waiter.channel)
            if queue is None or waiter not in queue:
                return
            # The waiter is removed last: after an interruption all of this can be done again.
            if len(queue) == 1:
                self._close(waiter.channel)
                _ = self._policies.pop(waiter.channel, None)
                _ = self.queues.pop(waiter.channel, None)
                return
            # If the client is not in the server's queue, the next must ask, or nobody wakes it.
            place = self.places.get(waiter.channel)
            missing = place is not None and not place.taken
            if not waiter.front:
                if missing:
                    next(iter(queue)).wake()
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

    def mend(self, waiter: Waiter) -> None:
        """Put *waiter* back into its queue, and make sure that somebody asks.

        A signal handler may have interrupted a step. If another thread changed the same queue
        meanwhile, the step may have lost the waiter.
        """
        with self._mutex:
            if waiter.departed or waiter.front:
                return
            queue = self.queues.get(waiter.channel)
            if queue is None:
                self.queues[waiter.channel] = {waiter: None}
                self._open(waiter)
            else:
                queue.setdefault(waiter)
            front = next(iter(self.queues[waiter.channel]))
            if not front.front:
                front.front = True
                front.wake()

    def has_waiters(self, channel: str) -> bool:
        """Return whether somebody waits here; a newcomer must not overtake that waiter."""
        return channel in self.queues

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
        with self._mutex:
            given = waiter.departed
            waiter.departed = True
        if waiter.channel not in self.places:
            self.leave(waiter)
        return given

    def offer(self, channel: str, kind: type[object], now: float) -> Waiter | None:
        """Return the front waiter of *channel*, which is to get a lock of *kind*.

        Return None if the lock is to be freed for all.

        After the server's answer, call `conclude` with the waiter, or `freed` if this returned
        None.
        """
        with self._mutex:
            queue = self.queues.get(channel)
            if queue is None:
                return None
            policy = self._policies.setdefault(channel, PassPolicy())
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

    def freed(self, channel: str, ours: bool) -> None:
        """Wake the front of *channel* after a release, or after a grant that gave up the place.

        Args:
            channel: of the lock.
            ours: whether the front is to ask now.
        """
        with self._mutex:
            queue = self.queues.get(channel)
            if queue is None:
                return
            front = next(iter(queue))
            if not ours:
                # In case the client is not in the server's queue after all, it asks soon.
                front.next_look = COURTESY
            front.wake(ask=ours)

    def notify(self, channel: str, payload: bytes | None = None) -> None:
        """Wake the front waiter of each section of *channel*.

        Args:
            channel: where a message came, or may have been missed.
            payload: the message; None for a confirmed subscription. A message of `FOR_OTHERS`
                says that others are to take the lock first. On a wake channel, a number above 0
                says how many milliseconds to wait first. What is behind a colon is the section.
        """
        with self._mutex:
            woken = self._woken_by.get(channel)
            if woken is not None:
                for whole in woken:
                    self._called(whole, payload or b"")
                return
            for part in self._sections.get(channel, ()):
                front = next(iter(self.queues[part]))
                # A client with a place has several subscriptions. The confirmation of the last one,
                # its wake channel, stands for all. A reader asks even if others are to take the
                # lock first: it can read with them.
                others = payload is None or (payload in FOR_OTHERS and not front.shares)
                if not others or part not in self.places:
                    front.wake()
            subscription = self._queue_subscriptions.get(channel)
            if subscription is not None and payload is not None and payload not in FOR_OTHERS:
                # A newcomer may have been refused before the message, and be about to wait.
                for part in subscription.parts - self.queues.keys():
                    self.places[part].woken = True

    def _called(self, whole: str, payload: bytes) -> None:
        """Wake the waiters that a message on the wake channel of *whole* is for."""
        parts: Iterable[str] = (whole,)
        patience = 0.0
        claim = _claim(payload)
        if payload != NEXT and claim is None:
            parts, patience = self._meaning(whole, payload)
        for part in parts:
            place, queue = self.places.get(part), self.queues.get(part)
            if place is not None and (payload or queue is None):
                place.woken = True
                place.claim = claim
            if queue is not None:
                front = next(iter(queue))
                if claim is not None:
                    self._made_holder(queue, claim)
                    continue
                if patience:
                    front.next_look = patience
                front.wake(ask=not patience)

    @staticmethod
    def _made_holder(queue: Iterable[Waiter], claim: Claim) -> None:
        """Tell the waiter of *claim* that it is the holder; if it has left, the front asks."""
        for waiter in queue:
            if waiter.candidate is not None and claim.is_for(waiter.candidate.holder):
                waiter.claim = claim
                waiter.wake()
                return
        next(iter(queue)).wake()

    def introduce(self, waiter: Waiter, candidate: Candidate | None, *, shares: bool) -> None:
        """Note that *candidate* may be given to *waiter*, which has just joined its queue.

        *shares* tells whether others may have the same at the same time. The message of a claim may
        be faster than the reply to the refused request before it.
        """
        with self._mutex:
            waiter.candidate, waiter.shares = candidate, shares
            place = self.places.get(waiter.channel)
            claim = None if place is None else place.claim
            if candidate is not None and claim is not None and claim.is_for(candidate.holder):
                waiter.claim = claim

    def started(self, channel: str, holder: str) -> None:
        """Note that *holder* began with its claim; if the front has no place now, it must ask."""
        with self._mutex:
            place = self.places.get(channel)
            if place is not None:
                place.left_for(holder)
            front = next(iter(self.queues.get(channel, ())), None)
            hold = None if front is None else front.candidate
            behind = hold is not None and hold.holder != holder and not hold.placed
            if front and (behind or front.shares):
                front.wake()

    def _meaning(self, whole: str, payload: bytes) -> tuple[list[str], float]:
        """Return the sections that a message is for, and how many seconds they wait first."""
        number, _, wanted = payload.partition(b":")
        # A message of unknown form is a wake-up, and nothing more.
        patience = int(number[:4]) / 1000 if number.isdigit() else 0.0
        if not payload:
            return list(self._queue_subscriptions[whole].parts), patience
        part = section(whole, wanted[:20].decode(errors="replace"))
        return [part if part in self.places else whole], patience

    def place_for(self, channel: str, client: str, me: str = "", *, waits: bool = True) -> None:
        """Make a place in the server's queue for this client while it waits for *channel*.

        Args:
            channel: a section.
            client: the client's id.
            me: its name in the queue, if that is not *client*.
            waits: whether somebody waits, or is about to.
        """
        with self._mutex:
            if not self.allows_places:
                return
            whole = whole_of(channel)
            subscription = self._queue_subscriptions.get(whole)
            if subscription is None:
                parts = self._sections.get(whole, ())
                counted = all(part in self.places or part == channel for part in parts)
                subscription = self._queue_subscriptions[whole] = QueueSubscription(
                    whole, client, counted=counted
                )
                self._woken_by.setdefault(subscription.wake, {})[whole] = None
                if parts or not waits:
                    # Earlier waiters need no place, and only subscribed to the channel. If nobody
                    # waits, the subscriber looks until it is time to forget the subscription.
                    subscription.heard = True
                    self._subscriptions.subscribe(whole)
            subscription.idle = 0  # it stays until the waiter has come
            if channel not in self.places:
                self.places[channel] = Place(whole, me or client)
                subscription.parts.add(channel)

    def channels_of(self, channel: str) -> tuple[str, ...]:
        """Return all channels to subscribe to for *channel*."""
        subscription = self._queue_subscriptions.get(channel)
        return (channel,) if subscription is None else subscription.channels

    def alone(self, channel: str) -> bool:
        """Return whether at most one waiter waits here for *channel*."""
        return len(self.queues.get(channel, ())) <= 1

    def vacate(
        self, channel: str, but: Waiter | None = None, holder: str = "", *, own: bool = False
    ) -> Place | None:
        """Return the place to give up, if nobody except *but* still waits here for *channel*.

        The last waiter calls this before it leaves its local queue. So a newcomer asks the server
        anew. With *own*, the client stands there in the name of *holder*. Then the place ends in
        any case, and those who still wait here must ask.
        """
        place = self.places.get(channel)
        if place is None or not (place.taken or own):
            return None
        with self._mutex:
            place = self.places.get(channel)
            if place is None or not (place.taken or own):
                return None
            if not own and any(
                not waiter.departed and waiter is not but for waiter in self.queues.get(channel, ())
            ):
                return None
            vacated = Place(channel, place.client)
            vacated.holder = holder if own else ""
            place.taken = place.bare = False
            place.holder = ""
            return vacated

    def look_for_idle(self) -> None:
        """Unsubscribe from channels that were idle at this look and the `IDLE_LOOKS` before it."""
        with self._mutex:
            for whole, subscription in list(self._queue_subscriptions.items()):
                if whole in self._sections:
                    continue
                subscription.idle += 1
                if subscription.idle > IDLE_LOOKS:
                    if subscription.heard:
                        self._subscriptions.unsubscribe(whole)
                    del self._queue_subscriptions[whole]
                    woken = self._woken_by[subscription.wake]
                    del woken[whole]
                    if not woken:
                        del self._woken_by[subscription.wake]
                    for part in subscription.parts:
                        del self.places[part]

    def refused(self) -> None:
        """Do without places: the server refused a subscription to this client."""
        with self._mutex:
            if not self._queue_subscriptions:
                return
            self.allows_places = False
            heard = [
                whole
                for whole, subscription in self._queue_subscriptions.items()
                if subscription.heard
            ]
            for whole in heard:
                self._subscriptions.unsubscribe(whole)
            self._queue_subscriptions.clear()
            self.places.clear()
            self._woken_by.clear()
            for whole in heard:
                if whole in self._sections:
                    self._subscriptions.subscribe(whole)

    def serve_all(self, channel: str) -> None:
        """End the wait of all waiters in the queue of *channel*: each got what it waits for."""
        with self._mutex:
            for waiter in self.queues.get(channel, ()):
                waiter.departed = True
                waiter.wake(ask=False)

    def wake_all(self) -> None:
        """Wake every waiter of every channel: the client closes."""
        with self._mutex:
            for queue in self.queues.values():
                for waiter in queue:
                    waiter.wake()

    def channels(self) -> list[str]:
        """Return the channels that have waiters."""
        with self._mutex:
            return list(self._sections)

    def _open(self, waiter: Waiter) -> None:
        whole = whole_of(waiter.channel)
        parts = self._sections.get(whole)
        subscription, place = self._queue_subscriptions.get(whole), self.places.get(waiter.channel)
        heard = subscription is not None and subscription.heard
        # A confirmed subscription makes the waiter ask. Without a new one, it may ask at once.
        should_ask = place is None or place.woken or not place.taken
        if subscription is not None and place is None and subscription.counted:
            if heard:
                self._subscriptions.unsubscribe(whole)
            subscription.discount()
            subscription.heard = heard = False
        if parts is None:
            self._sections[whole] = [waiter.channel]
            # Once more if there is no connection: there may have been no thread to open one.
            if not heard or not self.hearing:
                self._subscriptions.subscribe(whole)
            waiter.should_ask = heard and should_ask
        else:
            if waiter.channel not in parts:
                parts.append(waiter.channel)
            waiter.should_ask = should_ask
            if subscription is not None and not heard:
                # The waiters before it needed no subscription.
                self._subscriptions.subscribe(whole)
        if subscription is not None:
            subscription.heard = True
            subscription.idle = 0

    def _close(self, channel: str) -> None:
        whole = whole_of(channel)
        parts = self._sections.get(whole, [])
        if channel in parts:
            parts.remove(channel)
        if not parts:
            _ = self._sections.pop(whole, None)
            subscription = self._queue_subscriptions.get(whole)
            if subscription is None or not subscription.heard:
                self._subscriptions.unsubscribe(whole)
