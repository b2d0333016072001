"""The servers of one client: which node serves which key. A single server is a cluster of one node.

Connections, subscriptions and the upkeep have one part for each node. They ask the topology for the
node of a key, and tell it what the nodes say of themselves. With a single server there is one
part, and nobody needs to ask.
"""

from __future__ import annotations

from concurrent.futures import Future
from typing import TYPE_CHECKING

from interlock._links.endpoint import Endpoint
from interlock._links.replies import RedirectedError
from interlock._links.slots import slot_of
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock.options import PubSub

MOST_HOPS = 5
ONCE_MORE = 0.1
"""Seconds between two fetches of the map while a node does not answer."""
LEAST = 0.001
"""Seconds for a command whose time is up."""


class Topology:
    """What one client knows of its servers: as it stands, that one server serves all keys.

    `Cluster` replaces what is different with several nodes.

    Args:
        endpoint: the server.

    Attributes:
        where: their name in messages, which no other servers have.
        only: the single server, or None where keys belong to several nodes.
        sharded: whether there are sharded channels; None until the nodes were asked.
        on_change: called, in any thread, when another node serves some slot.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self.where = endpoint.where
        self.only: Endpoint | None = endpoint
        self.sharded: bool | None = False
        self.on_change: Callable[[], None] = lambda: None
        self._endpoint = endpoint

    @property
    def nodes(self) -> Sequence[Endpoint]:
        """All nodes that are known."""
        return (self._endpoint,)

    def owner(self, key: str) -> Endpoint | None:
        """Return the node that serves *key*, or None if that is not known."""
        del key
        return self._endpoint

    def any_owner(self) -> Endpoint:
        """Return a node to ask about a key that no node is known to serve."""
        return self._endpoint

    def learn(self, redirected: RedirectedError) -> Endpoint:
        """Return the node that a command was redirected to, and remember it if that is for good.

        Raises:
            RedirectedError: the single server belongs to a cluster, and the URL does not say so.
        """
        raise redirected

    def open(self, pubsub: PubSub) -> Future[None]:
        """Begin to learn everything that must be known before the first command."""
        del pubsub
        return self.fetch()

    def fetch(self, pause: float = ONCE_MORE) -> Future[None]:
        """Ask the nodes again who serves what, unless that was done in the last *pause* seconds.

        Return a future that is done when that is known.
        """
        del pause
        return done(None)

    def nobody(self, key: str) -> ServerUnavailableError:
        """Return the error for a *key* that no node is known to serve."""
        return ServerUnavailableError(
            f"nobody in {self.where} serves slot {slot_of(key)}, that of the key {key!r}",
            code="CLUSTERDOWN",
            transient=True,
        )

    def silent(self, seconds: float) -> ServerUnavailableError:
        """Return the error for nodes that did not say in *seconds* who serves what."""
        return ServerUnavailableError(
            f"no node of {self.where} told in {seconds:g} s who serves what",
            transient=self.any_owner().seen,
        )


class Route:
    """The way of one command through the cluster, after a node did not serve it.

    A redirection is followed at once, a few times: not all nodes may know the latest map. Any other
    error goes to the caller. If the problem may pass, the error is transient, and `session.persist`
    asks again as long as there is time. Meanwhile the map is fetched anew, so that asking again
    helps.

    Attributes:
        asking: whether the next node must be told that the slot is just moving there.
    """

    __slots__ = ("_hops", "_topology", "asking")

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._hops = 0
        self.asking = False

    def next(self, failure: ServerUnavailableError) -> Endpoint:
        """Return where to send the command that was answered by *failure*.

        Raises:
            ServerUnavailableError: *failure*, if the command is not to be sent on; another error,
                if it was sent on too often.
        """
        if not isinstance(failure, RedirectedError):
            if failure.transient and failure.code != "TRYAGAIN":
                _ = self._topology.fetch()
            raise failure
        self._hops += 1
        if self._hops > MOST_HOPS:
            raise ServerUnavailableError(
                f"the nodes of {self._topology.where} do not agree who serves slot {failure.slot}",
                code=failure.code,
                transient=True,
            ) from failure
        self.asking = failure.asking
        return self._topology.learn(failure)


def done(error: Exception | None) -> Future[None]:
    """Return a future that is done, perhaps with *error*."""
    future = Future[None]()
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)
    return future


def topology_of(servers: Endpoint | Topology) -> Topology:
    """Return the topology of *servers*."""
    return Topology(servers) if isinstance(servers, Endpoint) else servers
