"""Who waits here for which channel, and who is woken: passive, no thread and no clock inside.

Theory. A release is announced on a channel; every process with waiters hears it, and all local waiters of one channel share
one subscription. Waking them all would send one command each to the server, of which all but one must fail. So waiters of a
channel stand in a queue and only the one in front asks the server.

Rules:

* A wake-up sets ``asking`` on the front ticket. It stays set until its waiter takes it, so a message that comes while the
  front is just asking makes it ask again.
* Whoever leaves from the front passes its place on: the next is woken, to keep the time for the queue from now on. It is told
  to ask at once unless the one before left as the holder, in which case the lock is known to be taken.
* A waiter that is cancelled or out of time leaves like any other, so that its wake-up is never lost with it.
* Those who wait on one channel for different things stand in different sections of it, whose fronts ask independently.
* A (re)subscription counts as a message: what was published meanwhile is gone.
* Whoever releases may offer the lock to the front waiter instead of freeing it (`offer`): while that is under way the waiter
  does not ask, and may leave; exactly one of the two learns that it left (`give_up`, `conclude`).
* That goes on for as long as `HandOverPolicy` lets it. Then the release goes to the first in the server's queue.
* A client that waits for a plain or fenced lock has a `Place` in that queue. It hears its own channel too, whose messages tell
  that it is next. It keeps the subscription for a while, so that who waits often need not subscribe each time.

Prior art: trio's ``_parking_lot.py``; the lost wake-ups of asyncio.Lock (bpo-27585) and asyncio.Semaphore (gh-90155).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from interlock._core import names
from interlock._core.hand_over import COURTESY, HandOverPolicy
from interlock._core.waiter import Waiter

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

LONGEST_OFFER = 0.15
"""Seconds after which a waiter that is being handed the lock, and hears no more, asks for itself."""

FOR_OTHERS = b"00"
"""The message that a lock is free for those who are not in the server's queue; Java reads 0."""
IDLE_LOOKS = 1
"""How often the subscriber looks at a channel that nobody waits for before it unsubscribes."""

_SECTION = "\ud800"
"""A lone surrogate: no channel has it, because it cannot be sent."""


def section(channel: str, wanted: object) -> str:
    """Return where those stand who wait for *wanted* (1: a single one) of what is announced on *channel*."""
    return channel if wanted == 1 else f"{channel}{_SECTION}{wanted}"


def _whole(channel: str) -> str:
    return channel.partition(_SECTION)[0]


class Subscriptions(Protocol):
    """Where channels are subscribed to; both calls return at once."""

    def subscribe(self, channel: str) -> None:
        """Want messages of *channel*."""
        ...

    def unsubscribe(self, channel: str) -> None:
        """Want no more of them."""
        ...


class Place:
    """A client's place in the server's queue of one lock.

    It lasts as long as the client hears the channel: while somebody waits here, and a while longer,
    so that who waits often need not subscribe each time.

    Attributes:
        client: the client's id.
        queue: the key of the queue.
        wake: the channel on which the client hears that it is next.
        taken: whether the client may stand in the queue.
        left: seconds that were left of the holder's lease when the client was refused last.
        woken: whether a wake-up came while nobody waited here.
        heard: whether it was subscribed to.
        idle: how often the subscriber has looked since the last one waited.
    """

    __slots__ = (
        *("channels", "client", "heard", "idle"),
        *("left", "queue", "taken", "wake", "woken"),
    )

    def __init__(self, channel: str, client: str) -> None:
        self.client = client
        self.queue = names.waiting_queue(channel)
        self.wake = names.wake_channel(channel, client)
        self.channels = (channel, names.waiting_channel(channel), self.wake)
        self.taken = self.woken = self.heard = False
        self.left = 0.0
        self.idle = 0


class Waiters:
    """The queues of all channels of one client.

    Args:
        mutex: guards the queues; threads come from everywhere.
        subscriptions: told of the first waiter of a channel and of the last one's leaving.

    Attributes:
        queues: those of all channels that somebody waits for.
        hearing: False while there is no subscriber connection and messages may be missed; set by the driver.
        places: the client's places in the server's queues.
        roomy: whether there may be places: False when the server lets nobody hear their channels.
    """

    def __init__(self, mutex: AbstractContextManager[object], subscriptions: Subscriptions) -> None:
        self._mutex = mutex
        self._subscriptions = subscriptions
        self.hearing = False
        # A dict is the queue: ordered, and a waiter in the middle leaves in one step.
        self.queues: dict[str, dict[Waiter, None]] = {}
        self._sections: dict[str, list[str]] = {}
        self.places: dict[str, Place] = {}
        self.roomy = True
        self._woken_by: dict[str, str] = {}
        self._policies: dict[str, HandOverPolicy] = {}

    def join(
        self, channel: str, alarm: Callable[[], None], noted: list[Waiter] | None = None
    ) -> Waiter:
        """Stand at the end of the queue of *channel*.

        Args:
            channel: what is waited for.
            alarm: called, from any thread, when there is something to look at.
            noted: where the ticket is put before it queues, so that it can be taken back if this is interrupted.
        """
        ticket = Waiter(channel, alarm)
        if noted is not None:
            noted.append(ticket)
        with self._mutex:
            queue = self.queues.get(channel)
            if queue is None:
                # Never an empty queue: whoever came next would stand behind nobody.
                self.queues[channel] = {ticket: None}
                ticket.front = True
                self._open(ticket)
            else:
                queue[ticket] = None
        return ticket

    def leave(self, ticket: Waiter) -> None:
        """Go, and pass the front place on; doing it twice changes nothing."""
        with self._mutex:
            ticket.gone = True
            queue = self.queues.get(ticket.channel)
            if queue is None or ticket not in queue:
                return
            # The ticket goes last: whoever is interrupted before that can do all of this again.
            if len(queue) == 1:
                self._close(ticket.channel)
                _ = self._policies.pop(ticket.channel, None)
                _ = self.queues.pop(ticket.channel, None)
                return
            if ticket.front:
                successor = next(other for other in queue if other is not ticket)
                successor.front = True
                successor.inherited = ticket.taken_for
                # One that does not stand in the server's queue must ask, or nobody wakes it.
                place = self.places.get(ticket.channel)
                missing = place is not None and not place.taken
                successor.wake(ask=ticket.taken_for is None or ticket.asking or missing)
            _ = queue.pop(ticket, None)

    def mend(self, ticket: Waiter) -> None:
        """Put *ticket* back into its queue, and see that somebody asks.

        A step that a signal handler interrupted may have lost it, when another thread went through the same queue meanwhile.
        """
        with self._mutex:
            if ticket.gone or ticket.front:
                return
            queue = self.queues.get(ticket.channel)
            if queue is None:
                self.queues[ticket.channel] = {ticket: None}
                self._open(ticket)
            else:
                queue.setdefault(ticket)
            front = next(iter(self.queues[ticket.channel]))
            if not front.front:
                front.front = True
                front.wake()

    def crowded(self, channel: str) -> bool:
        """Return whether somebody waits here already, whom a newcomer must not overtake."""
        return channel in self.queues

    def begin_asking(self, ticket: Waiter, now: float) -> bool:
        """Note that *ticket*'s waiter asks the server, until it sets `Waiter.busy` back; False while it is offered what it wants."""
        with self._mutex:
            if ticket.offered and now < ticket.offered_until:
                return False
            # Whoever offered it is late, or was interrupted. Who was made the holder meanwhile learns of it by asking.
            ticket.offered = False
            ticket.busy = True
            return True

    def give_up(self, ticket: Waiter) -> bool:
        """Wait no longer; return whether it was given what it waited for before that."""
        with self._mutex:
            given = ticket.gone
            ticket.gone = True
            return given

    def offer(self, channel: str, kind: type[object], now: float) -> Waiter | None:
        """Return the front waiter of *channel*, to be given a lock of *kind* by who releases it; None to free it for all.

        Whoever gets a ticket calls `conclude`, who gets None `freed`, when the server has answered.
        """
        with self._mutex:
            queue = self.queues.get(channel)
            if queue is None:
                return None
            policy = self._policies.setdefault(channel, HandOverPolicy())
            ticket = next(iter(queue))
            hold = ticket.candidate
            if (
                hold is None
                or ticket.busy
                or ticket.offered
                or ticket.gone
                or type(hold.core) is not kind
            ):
                policy.end()
                return None
            if not policy.stays_here(len(queue), now):
                return None
            # From here on a command that makes it the holder may be under way, whatever becomes of who sends it.
            hold.offer()
            ticket.offered_until = now + LONGEST_OFFER
            ticket.offered = True
            return ticket

    def conclude(self, ticket: Waiter, accept: Callable[[], bool] | None) -> bool:
        """End an offer and wake its waiter; return whether it has left meanwhile.

        Args:
            ticket: what `offer` returned.
            accept: makes the waiter's hold held; None when it is not, or perhaps not, and the waiter must ask.
        """
        with self._mutex:
            offered, ticket.offered = ticket.offered, False
            left = offered and ticket.gone
            try:
                if offered and accept is not None and not left and accept():
                    ticket.gone = True
            finally:
                ticket.wake()
            return left

    def freed(self, channel: str, ours: bool) -> None:
        """Wake the front of *channel* after a release that gave the lock to this very client, if *ours*."""
        with self._mutex:
            queue = self.queues.get(channel)
            if queue is None:
                return
            front = next(iter(queue))
            if not ours:
                # Should the client stand in no queue after all, it asks soon.
                front.inherited = COURTESY
            front.wake(ask=ours)

    def notify(self, channel: str, payload: bytes | None = None) -> None:
        """Wake the front waiter of each section of *channel*.

        Args:
            channel: where a message came, or may have been missed.
            payload: the message; None for a subscription that was confirmed. `FOR_OTHERS` tells
                that others are to take the lock first; a number above 0 for how many milliseconds.
        """
        if payload in (FOR_OTHERS, None) and channel in self.places:
            # Others are those without a place. Of a subscription, the last channel tells that all
            # is heard.
            return
        with self._mutex:
            whole = self._woken_by.get(channel, channel)
            if whole is not channel and payload is not None:
                place = self.places[whole]
                place.woken = True
            patience = int(payload) / 1000 if whole is not channel and payload else 0.0
            for part in self._sections.get(whole, ()):
                front = next(iter(self.queues[part]))
                if patience:
                    front.inherited = patience
                front.wake(ask=not patience)

    def place_for(self, channel: str, client: str) -> None:
        """Make a place in the server's queue for this client, *client*, while it waits for *channel*."""
        with self._mutex:
            if self.roomy and channel not in self.places:
                place = self.places[channel] = Place(channel, client)
                self._woken_by[place.wake] = channel
            elif channel in self.places:
                self.places[channel].idle = 0  # it stays until the waiter has come

    def channels_of(self, channel: str) -> tuple[str, ...]:
        """Return what is subscribed to for *channel*."""
        place = self.places.get(channel)
        return (channel,) if place is None else place.channels

    def alone(self, channel: str) -> bool:
        """Return whether no more than one waits here for *channel*."""
        return len(self.queues.get(channel, ())) <= 1

    def vacate(self, channel: str, but: Waiter | None = None) -> Place | None:
        """Return the place to give up if nobody *but* one waits here for *channel* any more.

        Who gives it up does so before it leaves: then the next to come asks anew.
        """
        with self._mutex:
            place = self.places.get(channel)
            if place is None or not place.taken:
                return None
            queue = self.queues.get(channel, ())
            for ticket in queue:
                if not ticket.gone and ticket is not but:
                    return None
            place.taken = False
            return place

    def look_for_idle(self) -> None:
        """Unsubscribe from what nobody has waited for since the look before the last one."""
        with self._mutex:
            for channel, place in list(self.places.items()):
                if channel in self._sections:
                    continue
                place.idle += 1
                if place.idle > IDLE_LOOKS:
                    if place.heard:
                        self._subscriptions.unsubscribe(channel)
                    del self.places[channel], self._woken_by[place.wake]

    def refused(self) -> None:
        """Do without places: the server lets this client hear no channel of theirs, or some other one."""
        with self._mutex:
            if not self.places:
                return
            self.roomy = False
            heard = [channel for channel, place in self.places.items() if place.heard]
            for channel in heard:
                self._subscriptions.unsubscribe(channel)
            self.places.clear()
            self._woken_by.clear()
            for channel in heard:
                if channel in self._sections:
                    self._subscriptions.subscribe(channel)

    def serve_all(self, channel: str) -> None:
        """End the wait of all who stand in the queue of *channel*: each got what it waits for."""
        with self._mutex:
            for ticket in self.queues.get(channel, ()):
                ticket.gone = True
                ticket.wake(ask=False)

    def wake_all(self) -> None:
        """Wake every waiter of every channel: the client closes."""
        with self._mutex:
            for queue in self.queues.values():
                for ticket in queue:
                    ticket.wake()

    def channels(self) -> list[str]:
        """Return the channels that have waiters."""
        with self._mutex:
            return list(self._sections)

    def _open(self, ticket: Waiter) -> None:
        whole = _whole(ticket.channel)
        parts = self._sections.get(whole)
        if parts is None:
            self._sections[whole] = [ticket.channel]
            place = self.places.get(whole)
            heard = place is not None and place.heard
            # Without a connection once more: there may have been no thread to open one.
            if not heard or not self.hearing:
                self._subscriptions.subscribe(whole)
            if place is not None and heard:
                ticket.asking = place.woken or not place.taken
            elif place is not None:
                place.heard = True
            if place is not None:
                place.idle = 0
        else:
            if ticket.channel not in parts:
                parts.append(ticket.channel)
            # There may be no confirmation of a subscription to make it look again.
            ticket.asking = True
            place = self.places.get(whole)
            if place is not None and not place.heard:
                # Those before it needed none.
                place.heard = True
                self._subscriptions.subscribe(whole)

    def _close(self, channel: str) -> None:
        whole = _whole(channel)
        parts = self._sections.get(whole, [])
        if channel in parts:
            parts.remove(channel)
        if not parts:
            _ = self._sections.pop(whole, None)
            place = self.places.get(whole)
            if place is None or not place.heard:
                self._subscriptions.unsubscribe(whole)
