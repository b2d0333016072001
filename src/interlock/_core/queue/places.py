"""A client's places in the queues on the servers, and the channels that its waiters need.

Theory. A client that waits for a plain, fenced or write lock, or for permits, has a `Place` in the
server's queue. It has one for each line of its waiters. It also subscribes to a channel of its own,
whose messages tell that it is next (`QueueSubscription`). It keeps the subscription for a while. So
a client that waits often need not subscribe each time.

`Waiters` are the local queues on top of that. Each method of this file that has no lock of its own
is called with the mutex of those.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from interlock._core.model import names
from interlock._core.queue.lines import section

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager

    from interlock._core.queue.lines import Line
    from interlock._core.queue.waiter import Claim

IDLE_LOOKS = 1
"""How many looks of the subscriber an idle channel outlasts; the next one unsubscribes."""


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
        parts: the lines in which the client has a place.
    """

    __slots__ = ("channels", "counted", "heard", "idle", "parts", "wake")

    def __init__(self, channel: str, client: str, *, counted: bool) -> None:
        self.wake = names.wake_channel(channel, client)
        self.channels: tuple[str, ...] = (channel, names.waiting_channel(channel), self.wake)
        self.heard, self.counted = False, True
        self.idle = 0
        self.parts: set[Line] = set()
        if not counted:
            self.discount()

    def discount(self) -> None:
        """Hear of each release from the next subscription on."""
        self.counted = False
        self.channels = (self.channels[0], self.wake)


class Place:
    """A client's place in the server's queue, for one line.

    It lasts as long as its `QueueSubscription`.

    Attributes:
        client: its name in the queue, which begins with the client's id.
        queue: the key of the queue.
        taken: whether the client may stand in the queue.
        others_wait: whether the newest request asked to stay there after it is granted.
        remaining: seconds that remained of the holder's lease when the client was refused last.
        woken: whether a wake-up came while nobody waited here.
        claim: a message that came then, since the newest request of the holder that it is for.
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

        If *holder* is given, the client stands there in its name. A message for another holder
        stays: that one may have been refused, and be about to wait.
        """
        self.taken, self.woken, self.others_wait, self.holder = True, False, others_wait, holder
        if self.claim is not None and holder and self.claim.is_for(holder):
            self.claim = None
        self.bare = self.bare or not holder

    def refused(self, remaining: float) -> None:
        """Note that the client may have to wait for *remaining* seconds."""
        self.remaining = remaining

    def granted(self) -> None:
        """Note that the newest request was granted."""
        self.taken = self.bare = self.others_wait
        self.holder = ""

    def left(self) -> None:
        """Note that the holder in whose name the client stood there has got the lock."""
        self.taken, self.holder = self.bare, ""


class Places:
    """The places of one client, and what it subscribes to.

    Args:
        mutex: guards all of it, which any thread may use.
        subscriptions: hears when a channel gets its first waiter, and when nobody needs it any
            more.

    Attributes:
        hearing: False while there is no subscriber connection, so that messages may be missed; the
            driver sets it.
        places: the client's places in the server's queues, by line.
        allows_places: whether places are possible; False if the server refused their channels.
        tell_refusal: called then; the session sets it.
    """

    def __init__(self, mutex: AbstractContextManager[object], subscriptions: Subscriptions) -> None:
        self._mutex = mutex
        self._subscriptions = subscriptions
        self.hearing = False
        self.places: dict[Line, Place] = {}
        self.allows_places = True
        self.tell_refusal: Callable[[], None] = lambda: None
        # The lines that have waiters, by their channels.
        self._lines: dict[str, list[Line]] = {}
        self._queue_subscriptions: dict[str, QueueSubscription] = {}
        # The objects whose messages come on a wake channel: a lock and a read/write lock of one
        # name have the same.
        self._woken_by: dict[str, dict[str, None]] = {}

    def place_for(self, line: Line, client: str, me: str = "", *, waits: bool = True) -> None:
        """Make a place in the server's queue for this client while it waits for *line*.

        Args:
            line: what is waited for.
            client: the client's id.
            me: its name in the queue, if that is not *client*.
            waits: whether somebody waits, or is about to.
        """
        with self._mutex:
            if not self.allows_places:
                return
            whole = line if type(line) is str else line[0]  # `channel_of` inlined
            subscription = self._queue_subscriptions.get(whole)
            if subscription is None:
                parts = self._lines.get(whole, ())
                counted = all(part in self.places or part == line for part in parts)
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
            if line not in self.places:
                self.places[line] = Place(whole, me or client)
                subscription.parts.add(line)

    def channels_of(self, channel: str, *, leaving: bool = False) -> tuple[str, ...]:
        """Return all channels to subscribe to for *channel*, or if *leaving* to unsubscribe from.

        A lock and a read/write lock of one name have all but the first in common. Those stay while
        the other one needs them.
        """
        subscription = self._queue_subscriptions.get(channel)
        if subscription is None:
            return (channel,)
        if not leaving:
            return subscription.channels
        needed: set[str] = set()
        for whole in self._woken_by.get(subscription.wake, ()):
            other = self._queue_subscriptions.get(whole)
            if other is not None and other is not subscription and other.heard:
                needed.update(other.channels)
        return tuple(each for each in subscription.channels if each not in needed)

    def channels(self) -> list[str]:
        """Return the channels that have waiters."""
        with self._mutex:
            return list(self._lines)

    def _meaning(self, whole: str, payload: bytes) -> tuple[list[Line], float]:
        """Return the lines that a message is for, and how many seconds they wait first."""
        number, _, wanted = payload.partition(b":")
        # A message of unknown form is a wake-up, and nothing more.
        patience = int(number[:4]) / 1000 if number.isdigit() else 0.0
        if not payload:
            return list(self._queue_subscriptions[whole].parts), patience
        part = section(whole, wanted[:20].decode(errors="replace"))
        return [part if part in self.places else whole], patience

    def look_for_idle(self) -> None:
        """Unsubscribe from channels that were idle at this look and the `IDLE_LOOKS` before it."""
        with self._mutex:
            for whole, subscription in list(self._queue_subscriptions.items()):
                if whole in self._lines:
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
            heard: list[str] = []
            for whole, subscription in self._queue_subscriptions.items():
                if subscription.heard:
                    heard.append(whole)
                    self._subscriptions.unsubscribe(whole)
                    subscription.heard = False
            self._queue_subscriptions.clear()
            self.places.clear()
            self._woken_by.clear()
            for whole in heard:
                if whole in self._lines:
                    self._subscriptions.subscribe(whole)
        self.tell_refusal()

    def _open(self, line: Line) -> bool:
        """Hear the channel of *line* for its first waiter; return whether that may ask at once."""
        whole = line if type(line) is str else line[0]  # `channel_of` inlined
        parts = self._lines.get(whole)
        subscription, place = self._queue_subscriptions.get(whole), self.places.get(line)
        heard = subscription is not None and subscription.heard
        # A confirmed subscription makes the waiter ask. Without a new one, it may ask at once.
        should_ask = place is None or place.woken or not place.taken
        if subscription is not None and place is None and subscription.counted:
            if heard:
                self._subscriptions.unsubscribe(whole)
            subscription.discount()
            subscription.heard = heard = False
        if parts is None:
            self._lines[whole] = [line]
            # Once more if there is no connection: there may have been no thread to open one.
            if not heard or not self.hearing:
                self._subscriptions.subscribe(whole)
            should_ask = heard and should_ask
        else:
            if line not in parts:
                parts.append(line)
            if subscription is not None and not heard:
                # The waiters before it needed no subscription.
                self._subscriptions.subscribe(whole)
        if subscription is not None:
            subscription.heard = True
            subscription.idle = 0
        return should_ask

    def _close(self, line: Line) -> None:
        """Note that nobody stands in *line* here; hear its channel no longer if it has no other."""
        whole = line if type(line) is str else line[0]  # `channel_of` inlined
        parts = self._lines.get(whole)
        if parts and line in parts:
            parts.remove(line)
        if not parts:
            _ = self._lines.pop(whole, None)
            subscription = self._queue_subscriptions.get(whole)
            if subscription is None or not subscription.heard:
                self._subscriptions.unsubscribe(whole)
