"""A primary under Sentinel: connections that lead to it and to no other server.

Theory. Sentinels name the primary, and may be wrong for a moment. So a connection counts only once
its server itself says that it is a primary (ROLE). After that the hot path is that of a single
server. A connection may still fail in three ways, and after each the Sentinels are asked again:

* It breaks.
* Its server answers as a replica does.
* A Sentinel announces another primary. Then the connections to the former one are cut. The cut
  also frees callers that wait for a server that hangs.

New connections go where a Sentinel says, never to an address that was good once. A former primary
that comes back believes that it is still the primary, until it is told otherwise.

Source: https://redis.io/docs/latest/develop/reference/sentinel-clients/.
"""

from __future__ import annotations

import math
import socket
import time
import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock._links.endpoint import Endpoint
from interlock._links.sentinel import LEAST
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from interlock._links.dialled import Dialled
    from interlock._links.login import Login
    from interlock._links.sentinel import Address, Sentinels

LOGIN = 1.0
"""Seconds after which a server that does not log us in counts as one that hangs.

A caller that has much more time waits longer.
"""


class OpenConnections:
    """The open connections, each with the address that it leads to; any thread can cut them.

    A server that hangs says nothing. Only a cut tells its waiters that they wait for the wrong
    server.

    No mutex: a signal handler or ``__del__`` may strike anywhere, and use the client. Each step
    is one assignment or one method of a dict. `cut` first notes the address and then looks for
    connections; a connection is first added and then looks for cuts.

    Attributes:
        cuts: an object that is replaced at each cut.
    """

    def __init__(self) -> None:
        self.cuts = object()
        self._only: Address | None = None
        # Weak: a connection that nobody refers to any more is closed, and nobody waits for it.
        self._connections: dict[int, tuple[weakref.ref[Dialled], Address]] = {}

    def add(self, address: Address, connection: Dialled) -> None:
        """Take in a connection that leads to *address*, before it connects.

        A server may already hang while the connection logs in.
        """
        key, connections = id(connection), self._connections
        ref = weakref.ref(connection, lambda _: connections.pop(key, None))
        connections[key] = (ref, address)

    def stands(self, address: Address, at: object) -> bool:
        """Return whether *address*, looked up when `cuts` was *at*, is still good."""
        return self.cuts is at or address == self._only

    def cut(self, address: Address) -> None:
        """Cut each connection that does not lead to *address*; its user sees it end."""
        self._only = address
        self.cuts = object()
        for ref, to in list(self._connections.values()):
            connection = ref()
            if connection is not None and to != address and (sock := connection.sock) is not None:
                with suppress(OSError):  # it is closed already, as intended
                    # The method of the plain socket. That of a TLS socket also drops the TLS
                    # session, which another thread may use. The socket of an event loop may be
                    # shut by any thread.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)


class SentinelEndpoint(Endpoint):
    """The primary of a service, wherever it is.

    Args:
        sentinels: the Sentinels that know where it is.
        given: the options of the data nodes, without host and port.
        tls: whether connections to them are encrypted.

    Attributes:
        sentinels: the Sentinels that know where it is.
        connected: called after every new connection.
        left: called when there is another primary than before.
    """

    moves = True
    rights = ("role",)

    def __init__(self, sentinels: Sentinels, given: Mapping[str, Any], *, tls: bool) -> None:
        super().__init__(given, tls=tls, where=sentinels.where)
        self._data_node = Endpoint(given, tls=tls)
        self.sentinels = sentinels
        self.connected: Callable[[], None] = lambda: None
        self.left: Callable[[], None] = lambda: None
        self._nodes: dict[Address, Endpoint] = {}
        self.after_fork()

    def use_login(self, login: Login) -> None:
        """Log in to the data nodes with what *login* knows; errors as `Endpoint.use_login`."""
        super().use_login(login)
        self._data_node.use_login(login)

    def after_fork(self) -> None:
        """Forget the connections of the parent process."""
        self._primary: Address | None = None
        self._epoch = 0
        self._moved_at = -math.inf
        self._open = OpenConnections()

    def connect(self, timeout: float, *, for_loop: bool = False) -> Dialled:
        """Return a connection to the primary; arguments and errors as `Endpoint.connect`."""
        until, at = time.monotonic() + timeout, self._open.cuts
        address = self.sentinels.look_up(timeout)
        node = self._node(address)
        try:
            connection = node.connect(_patience(until), for_loop=for_loop)
            role = node.ask(connection, "ROLE")
            if role[0] != b"master" or not self._open.stands(address, at):
                connection.disconnect()
                raise self._demoted(node)
        except ServerUnavailableError as error:
            # The next try asks the Sentinels again, which makes sense unless there is a code.
            error.transient = error.transient or error.code is None
            raise
        self._arrived(address, at)
        return connection

    def primaries(self, timeout: float) -> Sequence[Endpoint]:
        """Return the primary; errors as `Endpoint.primaries`."""
        return [self._node(self.sentinels.look_up(timeout))]

    def epoch(self) -> int:
        """Return the epoch of the primary that connections lead to.

        It grows only after the connections to the former primary were cut. Else the former primary
        could still draw a fencing token of the new epoch, and the next primary would repeat it.
        """
        return self._epoch

    def took_over(self, key: str) -> float:
        """Return how many seconds ago another primary has taken over, and *key* with it."""
        del key
        return time.monotonic() - self._moved_at

    def moved(self, address: Address) -> None:
        """Note that the primary is at *address*, and cut the connections to any other address.

        Any thread may call this.
        """
        former, self._primary = self._primary, address
        if former not in (None, address):
            self._moved_at = time.monotonic()
            self.sentinels.announced(address)
            self._open.cut(address)
            self.left()

    def _arrived(self, address: Address, at: object) -> None:
        self.seen = True
        # Another primary may have been announced just now: then the connection is cut.
        if self._open.stands(address, at):
            self.moved(address)
            self._epoch = max(self._epoch, self.sentinels.epoch_of(address))
        self.connected()

    def _node(self, address: Address) -> Endpoint:
        node = self._nodes.get(address)
        if node is None:
            node = self._nodes[address] = self._data_node.at(*address)
        node.seen = node.seen or self.seen
        node.opening = partial(self._open.add, address)
        return node

    def _demoted(self, node: Endpoint) -> ServerUnavailableError:
        return ServerUnavailableError(
            f"{node.where}, which the Sentinels named for {self.where}, is not the primary: "
            "a failover is under way",
            transient=True,
        )


def _patience(until: float) -> float:
    """Return how long connecting may take.

    A server that takes long to log us in hangs, and there may be another primary by then.
    """
    seconds = until - time.monotonic()
    return max(min(seconds, LOGIN), seconds / 3, LEAST)
