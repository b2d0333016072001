"""Blocking connections shared by threads.

Each node has a pool. It is last in, first out: a few connections are used, and stay warm.

Rules:

* No mutex: a signal handler or ``__del__`` may strike anywhere, and use the client. Each step is
  one method of a deque, dict or set. A thread that missed its wake-up because of that looks again
  after `TICK`.
"""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from concurrent.futures import TimeoutError as NotYet
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock._links.connection import Connection
from interlock._links.replies import returned
from interlock._links.shared import answer_of
from interlock._links.topology import LEAST, Route
from interlock.errors import ClosedError, InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.model.effects import Eval
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology
    from interlock.options import PubSub

    Look = Callable[[], None] | None

MAX_CONNECTIONS = 100
IDLE = 60.0
"""Seconds after which a connection is closed that nobody has used, unless it is the only one."""
TICK = 0.05
"""Seconds after which a thread that waits for a connection looks again."""


class NodePool:
    """The connections of one client to one node.

    Attributes:
        limit: how many there may be.
        named: whether the server has let the last one have its name.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self.named = True
        self.limit = endpoint.max_connections or MAX_CONNECTIONS
        self._idle: deque[Connection] = deque()
        # Weak: a connection that a Ctrl-C drops between two steps is no longer open, and nobody
        # waits for it.
        self._open: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._opening: set[object] = set()
        # The locks on which threads wait for a connection, or for the end of all connections.
        self._waiting: deque[threading.Lock] = deque()
        self._closed = False

    def eval(self, call: Eval[object], timeout: float) -> object:
        """Run *call* on any connection; errors as `Connection.eval`, and ReplicationError."""
        if call.replication is not None:
            return returned(*self.batch([call], timeout))
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = None
        if connection is None:  # not above: its error would have that one in its story
            connection = self._take(timeout)
        try:
            return connection.eval(call, timeout)
        finally:
            if connection.owes or self._waiting or self._closed:
                self.take_back(connection)
            else:  # in its place: the call would cost a hundredth of a pair
                self._idle.append(connection)

    def idle(self) -> Connection | None:
        """Return a connection that can be written to at once, or None.

        The caller must give it back by `take_back`.
        """
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def take_back(self, connection: Connection) -> None:
        """Take a connection back; one that still owes a reply is closed."""
        if connection.owes:
            self.discard(connection)
            if connection.lost:
                # The idle ones were opened to the same server, and have most likely gone with it.
                self._drop_idle()
            return
        self._idle.append(connection)
        if self._closed:
            self._drop_idle()
        elif self._waiting:
            self._wake()

    def end_idle(self) -> None:
        """Close what was not used since the last call of this, except for one connection."""
        for connection in list(self._idle.copy())[:-1]:
            if connection.used:
                connection.used = False
                continue
            with suppress(ValueError, IndexError):  # another thread has taken it, or one beside it
                self._idle.remove(connection)
                self.discard(connection)

    def batch(
        self,
        calls: Sequence[Eval[object]],
        timeout: float,
        before: Look = None,
        *,
        asking: bool = False,
        name: str = "",
    ) -> list[object]:
        """Run *calls* in one write; arguments and errors as `Connection.batch`.

        Args:
            calls: the scripts; a single one if *asking*.
            timeout: seconds to wait for a connection, and of silence after that.
            before: called just before they are sent: its error keeps them from that.
            asking: as for `Connection.batch`.
            name: what the connection is called in CLIENT LIST from now on, if it is not empty.
        """
        connection = self._take(timeout)
        try:
            if name not in ("", connection.name):
                self.named = connection.call(name, timeout)
            if before is not None:
                before()
            return connection.batch(calls, timeout, asking=asking)
        finally:
            self.take_back(connection)

    def log_in_anew(self) -> None:
        """Log in anew on the idle connections that have older credentials."""
        with suppress(IndexError):  # threads have taken the others
            for _ in range(len(self._idle)):
                connection = self._idle.popleft()
                connection.log_in_anew()
                self.take_back(connection)

    def close(self, timeout: float) -> None:
        """Close the idle connections now, and each busy one when it comes back.

        Wait at most *timeout* seconds for the busy ones.
        """
        self._closed = True
        if self._endpoint.login is not None:
            self._endpoint.login.leave(self)
        self._drop_idle()
        self._wake()
        deadline = time.monotonic() + timeout
        while (self._open or self._opening) and time.monotonic() < deadline:
            self._wait(deadline)

    def forget(self) -> None:
        """Close everything in a forked child, but send nothing."""
        self._waiting.clear()
        self._drop_idle()
        self._open.clear()
        self._opening.clear()

    def _take(self, timeout: float) -> Connection:
        deadline = time.monotonic() + timeout
        while not self._closed:
            connection = self.idle() or self._another(deadline)
            if connection is not None:
                return connection
            if time.monotonic() >= deadline:
                raise self.busy(timeout)
            self._wait(deadline)
        raise ClosedError("the client is closed")

    def busy(self, seconds: float) -> ServerUnavailableError:
        """Return the error for who has waited *seconds* for a connection in vain."""
        return ServerUnavailableError(
            f"all {self.limit} connections to {self._endpoint.where} were busy for "
            f"{seconds:g} s; raise max_connections",
            transient=True,
        )

    def _wait(self, deadline: float) -> None:
        """Wait for a connection that comes back, but only for a tick, and until *deadline*."""
        woken = threading.Lock()
        _ = woken.acquire()
        self._waiting.append(woken)
        try:
            if not self._idle:
                _ = woken.acquire(timeout=max(min(deadline - time.monotonic(), TICK), 0))
        finally:
            with suppress(ValueError):  # it was woken
                self._waiting.remove(woken)

    def _another(self, deadline: float) -> Connection | None:
        """Open one more connection; return None if the limit is reached."""
        place = object()
        # First take a place, then count. Two threads may both have to wait for a tick, but they
        # never open one too many.
        try:
            self._opening.add(place)  # a signal may strike right after this
            if len(self._open) + len(self._opening) > self.limit:
                return None
            connection = Connection(self._endpoint, max(deadline - time.monotonic(), LEAST))
            self._open.add(connection)
            if self._endpoint.login is not None:
                self._endpoint.login.follow(self)
                if self._closed:
                    self._endpoint.login.leave(self)
            return connection
        finally:
            self._opening.discard(place)

    def _wake(self) -> None:
        """Wake the thread that has waited longest; all of them when the pool is closed."""
        with suppress(IndexError):
            self._waiting.popleft().release()
            while self._closed:
                self._waiting.popleft().release()

    def _drop_idle(self) -> None:
        while (connection := self.idle()) is not None:
            self.discard(connection)

    def discard(self, connection: Connection) -> None:
        """Close *connection*."""
        try:
            connection.close()
        finally:
            # After a Ctrl-C its traceback may keep the connection, and `close` would wait for it.
            self._open.discard(connection)
            self._wake()


class Pool:
    """The blocking connections of one client: a pool for each node, chosen by the slot of the keys.

    Args:
        topology: the client's servers.

    Attributes:
        name: what connections are called in CLIENT LIST from their next `batch` on.
        eval: runs a call on the node that serves its keys, within a number of seconds; errors as
            `NodePool.eval`. A redirection is followed.
    """

    eval: Callable[[Eval[object], float], object]

    def __init__(self, topology: Topology) -> None:
        self._topology = topology
        self.name = ""
        self._pools: dict[Endpoint, NodePool] = {}
        self._closed = False
        self._idle_at = 0.0
        # A single server redirects nobody: its calls need not pass through here.
        self.eval = self._eval if topology.clustered else self._at(topology.any_owner()).eval

    def open(self, pubsub: PubSub, timeout: float) -> None:
        """Learn everything that must be known of the servers; errors as `Topology.open`."""
        if self._closed:
            raise ClosedError("the client is closed")
        try:
            answer_of(self._topology.open(pubsub), timeout)
        except NotYet:
            raise self._topology.silent(timeout) from None

    def batch(
        self, calls: Sequence[Eval[object]], timeout: float, before: Look = None
    ) -> list[object]:
        """Run *calls*, which one node serves, in one write.

        Return each one's reply or `InterlockError`. If another node serves one by now, that is
        followed. Arguments as `NodePool.batch`; an `InterlockError` that *before* raises is the
        reply to all.
        """
        if not calls:
            return []
        try:
            replies = self.serving(calls[0]).batch(calls, timeout, before, name=self.name)
        except InterlockError as error:
            replies = [error] * len(calls)
        return [
            self.outcome(call, reply, timeout, before)
            for call, reply in zip(calls, replies, strict=True)
        ]

    def outcome(
        self, call: Eval[object], reply: object, timeout: float, before: Look = None
    ) -> object:
        """Return the final reply or `InterlockError`: in a cluster another node may serve *call*."""
        route, deadline = Route(self._topology), time.monotonic() + timeout
        while isinstance(reply, ServerUnavailableError):
            try:
                pool = self._at(route.next(reply))
            except InterlockError as error:
                return error
            seconds = max(deadline - time.monotonic(), LEAST)
            try:
                [reply] = pool.batch([call], seconds, before, asking=route.asking)
            except InterlockError as error:
                reply = error
        return reply

    @property
    def named(self) -> bool:
        """Return whether CLIENT LIST shows the name of all connections."""
        return all(pool.named for pool in self._pools.copy().values())

    def _eval(self, call: Eval[object], timeout: float) -> object:
        try:
            return self.serving(call).eval(call, timeout)
        except ServerUnavailableError as error:
            reply = self.outcome(call, error, timeout)
        return returned(reply)

    def serving(self, call: Eval[object]) -> NodePool:
        """Return the pool to send *call* to first.

        Raises:
            ServerUnavailableError: nobody is known to serve its keys.
        """
        owner = self._topology.owner(call.keys[0])
        if owner is None:
            if self._closed:
                raise ClosedError("the client is closed")
            raise self._topology.nobody(call.keys[0])
        return self._at(owner)

    def _at(self, node: Endpoint) -> NodePool:
        """Return the pool for *node*; with a new one, forget those of nodes that have left.

        Who still uses one of these goes on, and it ends with its last user.
        """
        pool = self._pools.get(node)
        if pool is None:
            pool = self._pools.setdefault(node, NodePool(node))
            if self._closed:
                pool.close(0)
            for former in set(self._pools) - {node, *self._topology.nodes}:
                _ = self._pools.pop(former, None)
        return pool

    def end_idle(self, now: float) -> float:
        """Close connections that nobody uses if it is time; return when to look again."""
        if now >= self._idle_at:
            self._idle_at = now + IDLE / 2  # one look clears the mark, and the next one sees that
            for pool in self._pools.copy().values():
                pool.end_idle()
        return self._idle_at

    def close(self, timeout: float) -> None:
        """Close as `NodePool.close` does, all nodes within *timeout* seconds."""
        deadline = time.monotonic() + timeout
        self._closed = True
        for pool in self._pools.copy().values():
            pool.close(max(deadline - time.monotonic(), 0))

    def forget(self) -> None:
        """Close everything in a forked child, but send nothing."""
        for pool in self._pools.values():
            pool.forget()
