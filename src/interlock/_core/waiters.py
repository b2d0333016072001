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
* That goes on for a turn of each who waits here, and for `LONGEST_TURNS`. Then the lock is freed for all, and if other clients
  heard of it, their turns come first: the front waits until as many others have freed it, or their time has passed.

Prior art: trio's ``_parking_lot.py``; the lost wake-ups of asyncio.Lock (bpo-27585) and asyncio.Semaphore (gh-90155).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from interlock._core.waiter import Rotation, Waiter

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

LONGEST_TURNS = 0.02
"""Seconds for which a lock may go from one waiter of a client to the next before others get a chance."""
COURTESY = 0.1
"""Seconds, at most, that the others of a lock are given to take it first."""

MONOPOLY = 2.0
"""Seconds after which a lock that is always wanted here is left free once, for those who look without hearing."""
LONGEST_OFFER = 0.15
"""Seconds after which a waiter that is being handed the lock, and hears no more, asks for itself."""

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


class Waiters:
    """The queues of all channels of one client.

    Args:
        mutex: guards the queues; threads come from everywhere.
        subscriptions: told of the first waiter of a channel and of the last one's leaving.

    Attributes:
        queues: those of all channels that somebody waits for.
        hearing: False while there is no subscriber connection and messages may be missed; set by the driver.
    """

    def __init__(self, mutex: AbstractContextManager[object], subscriptions: Subscriptions) -> None:
        self._mutex = mutex
        self._subscriptions = subscriptions
        self.hearing = False
        # A dict is the queue: ordered, and a waiter in the middle leaves in one step.
        self.queues: dict[str, dict[Waiter, None]] = {}
        self._sections: dict[str, list[str]] = {}
        self._rotations: dict[str, Rotation] = {}

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
                _ = self._rotations.pop(ticket.channel, None)
                _ = self.queues.pop(ticket.channel, None)
                return
            if ticket.front:
                successor = next(other for other in queue if other is not ticket)
                successor.front = True
                successor.inherited = ticket.taken_for
                successor.wake(ask=ticket.taken_for is None or ticket.asking)
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
            if rotation := self._rotations.get(ticket.channel):
                rotation.sitting_out, rotation.unheeded = False, 0
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
            rotation = self._rotations.setdefault(channel, Rotation(now))
            if rotation.turns is None:
                rotation.turns, rotation.since = len(queue), now
            ticket = next(iter(queue))
            hold = ticket.candidate
            if (
                hold is None
                or ticket.busy
                or ticket.offered
                or ticket.gone
                or type(hold.core) is not kind
                or rotation.turns == 0
                or now - rotation.since >= LONGEST_TURNS
            ):
                rotation.turns = None
                # The message that we are going to send is no news here.
                rotation.unheeded = 1
                rotation.sitting_out = rotation.freeing = True
                return None
            rotation.turns -= 1
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

    def freed(self, channel: str, receivers: int, now: float) -> None:
        """Let the others go first who heard that a lock is free: *receivers*, this client among them.

        Who looks without hearing gets a chance now and then.
        """
        with self._mutex:
            queue, rotation = self.queues.get(channel), self._rotations.get(channel)
            if queue is None or rotation is None:
                return
            rotation.freeing = False
            front = next(iter(queue))
            others = receivers - 1
            if rotation.sitting_out and (others > 0 or now - rotation.left_free_at >= MONOPOLY):
                rotation.left_free_at = now
                rotation.unheeded += max(others - 1, 0)
                front.inherited = min(others * LONGEST_TURNS, COURTESY) if others > 0 else COURTESY
                front.wake(ask=False)
            else:
                rotation.sitting_out, rotation.unheeded = False, 0
                front.wake()

    def notify(self, channel: str) -> None:
        """Wake the front waiter of each section of *channel*: a message came, or may have been missed."""
        with self._mutex:
            rotation = self._rotations.get(channel)
            unheeded = rotation is not None and rotation.unheeded > 0
            for part in self._sections.get(channel, ()):
                front = next(iter(self.queues[part]))
                if not (unheeded and part == channel):
                    front.wake()
                elif rotation is not None and rotation.freeing:
                    # Should the releaser never learn that it has released, nobody else would wake it.
                    front.inherited = COURTESY
                    front.wake(ask=False)
            if rotation is not None and unheeded:
                rotation.unheeded -= 1

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
            self._subscriptions.subscribe(whole)
        else:
            if ticket.channel not in parts:
                parts.append(ticket.channel)
            # There will be no confirmation of a subscription to make it look again.
            ticket.asking = True

    def _close(self, channel: str) -> None:
        whole = _whole(channel)
        parts = self._sections.get(whole, [])
        if channel in parts:
            parts.remove(channel)
        if not parts:
            _ = self._sections.pop(whole, None)
            self._subscriptions.unsubscribe(whole)
