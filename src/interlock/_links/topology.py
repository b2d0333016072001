"""The servers of one client: which node serves which key. A single server is a cluster of one node.

Connections, subscriptions and the upkeep have one part for each node. They ask the topology for the
node of a key, and tell it what the nodes say of themselves. With a single server there is one
part, and nobody needs to ask.
"""

from __future__ import annotations

import math
from binascii import crc_hqx
from concurrent.futures import Future
from functools import lru_cache
from typing import TYPE_CHECKING

from interlock._links.replies import RedirectedError
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._links.endpoint import Endpoint
    from interlock.options import PubSub

SLOTS = 1 << 14
MOST_HOPS = 5
ONCE_MORE = 0.1
"""Seconds between two fetches of the map while a node does not answer."""
LEAST = 0.001
"""Seconds for a command whose time is up."""


@lru_cache(maxsize=4096)
def slot_of(key: str) -> int:
    """Return the slot of *key* (or of a sharded channel).

    Source: the cluster specification of redis.io: CRC16 (XMODEM) of the hash tag, or of all.
    """
    whole = key.encode()
    begin = whole.find(b"{") + 1
    end = whole.find(b"}", begin) if begin else -1
    return crc_hqx(whole[begin:end] if end > begin else whole, 0) % SLOTS


class Topology:
    """What one client knows of its servers, as it stands if a single one keeps all keys.

    Attributes:
        where: their name in messages, which no other servers have.
        db: the database.
        command_timeout: seconds, when the URL gave ``socket_timeout``.
        clustered: whether keys belong to several nodes.
        moves: whether another server may take the place of a node. Then connections to the former
            one are given up.
        rights: the commands that find the nodes, as an ACL names them.
        sharded: whether there are sharded channels; None until the nodes were asked.
        on_change: called, in any thread, when another server keeps some of the keys.
    """

    clustered = moves = False
    rights: tuple[str, ...] = ()
    sharded: bool | None = False

    def __init__(self, where: str, db: int, command_timeout: float | None) -> None:
        self.where, self.db, self.command_timeout = where, db, command_timeout
        self.on_change: Callable[[], None] = lambda: None

    @property
    def identity(self) -> str:
        """The name that tells this database from all others, on these servers and elsewhere."""
        return f"{self.where}/{self.db}"

    @property
    def nodes(self) -> Sequence[Endpoint]:
        """All nodes that are known."""
        return (self.any_owner(),)

    def owner(self, key: str) -> Endpoint | None:
        """Return the node that serves *key*, or None if that is not known."""
        del key
        return self.any_owner()

    def any_owner(self) -> Endpoint:
        """Return a node to ask about a key that no node is known to serve."""
        raise NotImplementedError

    def primaries(self, timeout: float) -> Sequence[Endpoint]:
        """Return the servers that keep locks now, each by itself.

        Raises:
            ServerUnavailableError: they could not be found in about *timeout* seconds.
        """
        del timeout
        return self.nodes

    def epoch(self) -> int:
        """Return a number that grows each time another server takes the place of the only one.

        The nodes of a cluster know the epochs of their shards themselves.
        """
        return 0

    def took_over(self, key: str) -> float:
        """Return how many seconds ago another server was seen to take over *key*."""
        del key
        return math.inf

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
        return done()

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


def done() -> Future[None]:
    """Return a future that is done."""
    future = Future[None]()
    future.set_result(None)
    return future
