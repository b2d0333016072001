"""The connections for renewals and clean-up: one to each node, used by one thread at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._links.connection import Connection
from interlock._links.redirection import Route
from interlock._links.resp import pack
from interlock._version import __version__
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Eval
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology


_LIBRARY = (("SETINFO", "LIB-NAME", "interlock"), ("SETINFO", "LIB-VER", __version__))


class NodeBatchConnection:
    """Sends batches to one node; it connects when needed, and again after a loss.

    Attributes:
        name: its name in CLIENT LIST from the next batch on; empty for none.
        named: whether CLIENT LIST shows the name, as far as it is known.
    """

    def __init__(self, endpoint: Endpoint, name: str) -> None:
        self._endpoint = endpoint
        self.name = self._called = name
        self._connection: Connection | None = None
        self.named = True

    def batch(
        self,
        calls: Sequence[Eval[object]],
        timeout: float,
        patience: float,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[object]:
        """Run *calls* in one write; return each one's reply or `InterlockError`.

        Args:
            calls: the scripts.
            timeout: seconds of silence after which the connection is given up.
            patience: seconds for connecting. *meanwhile* is not called during that time.
            meanwhile: called again and again while no reply comes. An `InterlockError` that it
                raises is the reply to all *calls*.
        """
        try:
            connection = self._connected(patience)
            if meanwhile is not None:
                meanwhile()  # it was not called while connecting
            return connection.batch(calls, timeout, meanwhile)
        except InterlockError as error:
            self.drop()
            return [error] * len(calls)
        except BaseException:
            # Replies may still come, and nobody else must read them.
            self.drop()
            raise

    def ask(self, call: Eval[object], timeout: float, patience: float) -> object:
        """Run *call* on a node that is just taking over its slot.

        Arguments and result as `batch`.
        """
        try:
            return self._connected(patience).ask(call, timeout)
        except InterlockError as error:
            self.drop()
            return error

    def _connected(self, patience: float) -> Connection:
        if self._connection is not None and not self._connection.log_in_anew():
            self.drop()
        if self._connection is None:
            self._connection, self._called = Connection(self._endpoint, patience), ""
        if self.name != self._called:
            self._called = self.name
            # Errors are ignored. Without the right to do that, the connection has no name.
            # Servers before Redis 7.2 do not know SETINFO.
            commands = (("SETNAME", self.name), *_LIBRARY)
            packed = [pack(("CLIENT", *command)) for command in commands]
            replies = self._connection.exchange(packed, patience)
            self.named = not isinstance(replies[0], Exception)
        return self._connection

    def drop(self) -> None:
        """Close the connection if it is open; doing it twice changes nothing."""
        connection, self._connection = self._connection, None
        if connection is not None:
            connection.close()


class BatchConnection:
    """Sends batches to the nodes that serve their keys, one node after another.

    If a thread must not wait for other nodes, it has a batch connection of its own.

    Args:
        topology: says which node serves a key.
    """

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self._name = ""
        self._connections: dict[Endpoint, NodeBatchConnection] = {}

    def batch(
        self,
        calls: Sequence[Eval[object]],
        timeout: float,
        patience: float,
        meanwhile: Callable[[], None] | None = None,
    ) -> list[object]:
        """Run *calls*, in one write for each node.

        Arguments and result as `NodeBatchConnection.batch`; each node has the full times.
        """
        groups: dict[Endpoint | None, list[int]] = {}
        for place, call in enumerate(calls):
            groups.setdefault(self._topology.owner(call.keys[0]), []).append(place)
        replies: list[object] = [None] * len(calls)
        for node, places in groups.items():
            group = [calls[place] for place in places]
            if node is None:
                answers: list[object] = [self._topology.nobody(call.keys[0]) for call in group]
            else:
                answers = self._to(node).batch(group, timeout, patience, meanwhile)
            for place, answer in zip(places, answers, strict=True):
                replies[place] = answer
                if isinstance(answer, ServerUnavailableError):
                    replies[place] = self._after(calls[place], answer, timeout, patience, meanwhile)
        self._forget_the_gone()
        return replies

    def _after(
        self,
        call: Eval[object],
        failure: ServerUnavailableError,
        timeout: float,
        patience: float,
        meanwhile: Callable[[], None] | None,
    ) -> object:
        """Send *call* to other nodes after *failure*; return the final reply or error."""
        route = Route(self._topology)
        while True:
            try:
                node = route.next(failure)
            except ServerUnavailableError as error:
                return error
            connection = self._to(node)
            if route.asking:
                answer = connection.ask(call, timeout, patience)
            else:
                [answer] = connection.batch([call], timeout, patience, meanwhile)
            if not isinstance(answer, ServerUnavailableError):
                return answer
            failure = answer

    def _to(self, node: Endpoint) -> NodeBatchConnection:
        connection = self._connections.get(node)
        if connection is None:
            connection = self._connections[node] = NodeBatchConnection(node, self._name)
        return connection

    def call(self, name: str) -> None:
        """Have the connections shown as *name* in CLIENT LIST from the next batch on."""
        self._name = name
        for connection in self._connections.values():
            connection.name = name

    def _forget_the_gone(self) -> None:
        if len(self._connections) > 1:
            for node in set(self._connections) - set(self._topology.nodes):
                self._connections.pop(node).drop()

    @property
    def named(self) -> bool:
        """Return whether CLIENT LIST shows the name of all connections."""
        return all(connection.named for connection in self._connections.values())

    def drop(self) -> None:
        """Close all open connections; doing it twice changes nothing."""
        for connection in self._connections.values():
            connection.drop()
