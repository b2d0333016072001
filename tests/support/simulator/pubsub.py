"""A simulated client's subscriber connection: ordered, delayed, and made anew when it breaks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.queue.waiters import Waiters
    from tests.support.simulator.network import Network

RECONNECT_PAUSE = 0.05
IDLE_INTERVAL = 0.5
TWICE = 0.5
"""How often a message that is late comes once more."""
LATEST = 1.5
"""Seconds by which a message is late at most."""


class Subscriber:
    """Subscribes for the waiters of one client; its events wait while the client is paused.

    Args:
        network: the way to the server.
        at: runs an action of this client at a time.
    """

    waiters: Waiters

    def __init__(self, network: Network, at: Callable[[float, Callable[[], None]], None]) -> None:
        self._network = network
        self._at = at
        self._wanted: dict[str, None] = {}
        self._connected = self._connecting = self._closed = False
        self._deaf_until = 0.0
        self._epoch = self._connection = 0
        self._sent_at = self._received_at = 0.0

    def subscribe(self, channel: str) -> None:
        """Want messages of *channel*."""
        self._wanted[channel] = None
        if self._connected:
            self._send(channel, wanted=True)
        else:
            self._connect(self._network.latency())

    def unsubscribe(self, channel: str) -> None:
        """Want no more of them."""
        del self._wanted[channel]
        if self._connected:
            self._send(channel, wanted=False)

    def deliver(self, channel: str, payload: bytes | None = None) -> None:
        """Send a message from the server; it arrives after all that the server sent before."""
        timeline, epoch = self._network.timeline, self._epoch

        def receive() -> None:
            if epoch == self._epoch:
                self.waiters.notify(channel, payload)

        self._received_at = max(self._received_at, timeline.now + self._network.latency())
        if payload is not None and timeline.now < self._network.dilatory_until:
            self._received_at += LATEST / 2 * timeline.random.random() ** 2
            if timeline.random.random() < TWICE:
                later = self._received_at + LATEST / 2 * timeline.random.random()
                self._at(later, receive)
        self._at(self._received_at, receive)

    def cut(self, deaf_for: float = 0.0, pause: float = RECONNECT_PAUSE) -> None:
        """Lose the connection; a new one is made *pause* after that, or *deaf_for* from now."""
        timeline = self._network.timeline
        self._network.forget(self)
        self._epoch += 1
        self._deaf_until = max(self._deaf_until, timeline.now + deaf_for)
        epoch = self._epoch

        def notice() -> None:
            if epoch == self._epoch:
                self._connected = self.waiters.hearing = False
                self._connect(pause)

        self._at(timeline.now + self._network.latency(), notice)

    def heal(self) -> None:
        """Be able to connect from now on."""
        self._deaf_until = 0.0

    def close(self) -> None:
        """End for good."""
        self._closed = True
        self._epoch += 1
        self._network.forget(self)

    def _connect(self, seconds: float) -> None:
        if self._connecting or self._closed:
            return
        self._connecting = True
        self._at(self._network.timeline.now + seconds, self._connect_now)

    def _connect_now(self) -> None:
        self._connecting = False
        if self._closed or self._connected or not self._wanted:
            return
        timeline = self._network.timeline
        if self._network.unreachable or timeline.now < self._deaf_until:
            self._connect(RECONNECT_PAUSE)
            return
        self._epoch += 1
        self._connection = self._epoch
        self._connected = self.waiters.hearing = True
        self._look_for_idle(self._epoch)
        self._sent_at = self._received_at = timeline.now
        for channel in self._wanted:
            self._send(channel, wanted=True)

    def _look_for_idle(self, epoch: int) -> None:
        def look() -> None:
            if epoch == self._epoch:
                self.waiters.look_for_idle()
                self._look_for_idle(epoch)

        self._at(self._network.timeline.now + IDLE_INTERVAL, look)

    def _send(self, channel: str, *, wanted: bool) -> None:
        # A request on a connection that was cut never arrives, even if nobody has noticed the cut.
        timeline, epoch = self._network.timeline, self._connection
        channels = self.waiters.channels_of(channel, leaving=not wanted)
        self._sent_at = max(self._sent_at, timeline.now + self._network.latency())

        def arrive() -> None:
            if epoch != self._epoch:
                return
            for part in channels:
                if wanted:
                    self._network.subscribe(part, self)
                    self.deliver(part)  # the confirmation counts as a message
                else:
                    self._network.unsubscribe(part, self)

        timeline.at(self._sent_at, arrive)
