"""The subscribers of a client in a cluster: a listener at each node that serves a channel which somebody waits for.

Theory. A sharded channel lives where the slot of its name does, which is that of the lock's keys. When the slot goes to another node
the former one ends the subscription; when a node dies its connections end; and a node that is not the right one says so. In all
three cases the channel is subscribed to anew where its slot is then, and the confirmation wakes the waiters to look again: what was
published meanwhile is gone.

Plain channels are heard at every node: one listener is enough, at any of them.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from interlock._drivers.listener import Listener
from interlock._links.cluster import AnyNode
from interlock._links.replies import RedirectedError, refusal
from interlock.errors import ConfigError, InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from interlock._core.waiters import Waiters
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock.options import PubSub


class ClusterListener:
    """What `Listener` is to one server.

    Args:
        cluster: the cluster.
        timeout: seconds for connecting to a node.
    """

    waiters: Waiters

    def __init__(self, cluster: Cluster, timeout: float) -> None:
        self._cluster = cluster
        self._timeout = timeout
        self._sharded = False
        self._reset()
        cluster.on_change = self.rearrange

    def _reset(self) -> None:
        self._mutex = threading.RLock()
        self._places: dict[str, _NodeListener] = {}
        self._listeners: dict[Endpoint | AnyNode, _NodeListener] = {}
        self._anywhere = AnyNode(self._cluster)
        self._closed = False

    def publish(self, pubsub: PubSub) -> str:
        """Return the command that those who listen here are told by, once the cluster was asked what it has.

        Raises:
            ConfigError: sharded channels are wanted, which the cluster does not have.
        """
        if pubsub == "sharded" and not self._cluster.sharded:
            raise ConfigError(
                f'{self._cluster.where} has no sharded channels (Redis 7 and Valkey have): use pubsub="auto"'
            )
        self._sharded = pubsub != "plain" and bool(self._cluster.sharded)
        return "SPUBLISH" if self._sharded else "PUBLISH"

    def subscribe(self, channel: str) -> None:
        """Want messages of *channel*; returns at once."""
        with self._mutex:
            if not self._closed:
                self._place(channel)
        self.look()

    def unsubscribe(self, channel: str) -> None:
        """Want no more messages of *channel*; returns at once."""
        with self._mutex:
            listener = self._places.pop(channel, None)
            if listener is not None:
                listener.unsubscribe(channel)
        self.look()

    def _place(self, channel: str) -> None:
        """Subscribe to *channel* where it is heard now."""
        node = (
            (self._cluster.owner(channel) or self._cluster.any_owner())
            if self._sharded
            else self._anywhere
        )
        listener = self._listeners.get(node)
        if listener is None:
            listener = self._listeners[node] = _NodeListener(
                self, self._cluster, node, self._timeout, sharded=self._sharded
            )
            listener.waiters = self.waiters
        self._places[channel] = listener
        listener.subscribe(channel)

    def rearrange(self) -> None:
        """Move every channel to where it is heard now, and end the listeners at nodes that are no more."""
        with self._mutex:
            if self._closed:
                return
            if not self._sharded:
                if self._anywhere.gone:
                    for listener in self._listeners.values():
                        listener.reconnect()
                return
            for channel, listener in list(self._places.items()):
                if (
                    self._listeners.get(self._cluster.owner(channel) or listener.node)
                    is not listener
                ):
                    listener.unsubscribe(channel)
                    self._place(channel)
            nodes = set(self._cluster.nodes)
            gone = [
                node
                for node, listener in self._listeners.items()
                if node not in nodes and listener not in self._places.values()
            ]
            ended = [self._listeners.pop(node) for node in gone]
        for listener in ended:
            listener.hang_up()
        self.look()

    def again(self, channel: str, listener: _NodeListener) -> None:
        """Subscribe to *channel* once more, if it is still wanted of *listener*, whose node has ended that."""
        with self._mutex:
            if self._places.get(channel) is listener and not self._closed:
                self._place(channel)

    def look(self) -> None:
        """Note whether all that is wanted is heard."""
        with self._mutex:
            places = set(self._places.values())
            self.waiters.hearing = bool(places) and all(place.hearing for place in places)

    def close(self) -> None:
        """End all threads and connections."""
        with self._mutex:
            self._closed = True
            listeners = list(self._listeners.values())
        for listener in listeners:
            listener.hang_up()
        for listener in listeners:
            listener.close()

    def after_fork(self) -> None:
        """Be as new in a forked child; the parent's connections are closed without a word."""
        listeners = list(self._listeners.values())
        self._reset()
        for listener in listeners:
            listener.after_fork()


class _NodeListener(Listener):
    """The listener at one node."""

    def __init__(
        self,
        whole: ClusterListener,
        cluster: Cluster,
        node: Endpoint | AnyNode,
        timeout: float,
        *,
        sharded: bool,
    ) -> None:
        super().__init__(node, timeout, sharded=sharded)
        self._whole = whole
        self._cluster = cluster
        self.node = node

    def reconnect(self) -> None:
        """Have the thread connect anew."""
        with self._mutex:
            if self._connection is not None:
                self._connection.shutdown()

    def hang_up(self) -> None:
        """Have the thread end, without waiting for it."""
        self._closed.set()
        self._wanted_some.set()
        self.reconnect()

    def _hear(self, hearing: bool) -> None:
        self.hearing = hearing
        self._whole.look()

    def _failed(self, error: InterlockError) -> None:
        del error
        if not self._closed.is_set():
            _ = self._cluster.fetch()

    def _refused(self, error: Exception) -> None:
        meaning = refusal(str(error), None, self._endpoint.where)
        if isinstance(meaning, RedirectedError):
            _ = self._cluster.learn(meaning)
        elif isinstance(meaning, ServerUnavailableError) and meaning.transient:
            raise meaning  # the next connection subscribes again

    def _ended(self, channel: str) -> None:
        # Ours, or the node's because the slot has gone; then where it is now is asked, or told by whoever we ask.
        self._whole.again(channel, self)
