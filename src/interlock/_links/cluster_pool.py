"""The blocking connections of one client to the nodes of a cluster: a pool for each node, chosen by the slot of the keys."""

from __future__ import annotations

import threading
from concurrent.futures import TimeoutError as NotYet
from time import monotonic
from typing import TYPE_CHECKING

from interlock._links.pool import Pool
from interlock._links.redirection import Route
from interlock.errors import ClosedError, ServerUnavailableError

if TYPE_CHECKING:
    from interlock._core.effects import Eval
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock.options import PubSub

LEAST = 0.001
"""Seconds for what is to be done when no time is left."""


class ClusterPool:
    """What `Pool` is to one server."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._pools: dict[Endpoint, Pool] = {}
        self._mutex = threading.Lock()
        self._closed = False

    def open(self, pubsub: PubSub, timeout: float) -> None:
        """Learn who serves what, and whether there are sharded channels; errors as `Cluster.open`."""
        if self._closed:
            raise ClosedError("the client is closed")
        try:
            self._cluster.open(pubsub).result(timeout)
        except NotYet:
            raise self._cluster.silent(timeout) from None

    def eval(self, call: Eval[object], timeout: float) -> object:
        """Run *call* on the node that serves its keys, wherever that is by now.

        Raises:
            InterlockError: as `Connection.eval`; a redirection is followed.
        """
        try:
            return self.serving(call).eval(call, timeout)
        except ServerUnavailableError as error:
            return self.after(call, error, timeout)
        except ClosedError:
            self._check_open(call)
            raise

    def serving(self, call: Eval[object]) -> Pool:
        """Return the pool to send *call* to first.

        Raises:
            ServerUnavailableError: nobody is known to serve its keys.
        """
        owner = self._cluster.owner(call.keys[0])
        if owner is None:
            if self._closed:
                raise ClosedError("the client is closed")
            raise self._cluster.nobody(call.keys[0])
        return self._pools.get(owner) or self._opened(owner)

    def after(self, call: Eval[object], failure: ServerUnavailableError, timeout: float) -> object:
        """Go on with *call*, which the node that serves its keys, as far as known, has answered by *failure*.

        Raises:
            InterlockError: as `eval`.
        """
        route, deadline = Route(self._cluster), monotonic() + timeout
        while True:
            node = route.next(failure)
            pool = self._pools.get(node) or self._opened(node)
            left = max(deadline - monotonic(), LEAST)
            try:
                return pool.ask(call, left) if route.asking else pool.eval(call, left)
            except ServerUnavailableError as error:
                failure = error
            except ClosedError:
                self._check_open(call)
                raise

    def _check_open(self, call: Eval[object]) -> None:
        """Tell that a node has left the cluster just now, with its pool; unless the client is closed."""
        if not self._closed:
            raise self._cluster.nobody(call.keys[0]) from None

    def _opened(self, node: Endpoint) -> Pool:
        """Return a new pool for *node*, and close those of nodes that are no more."""
        with self._mutex:
            pool = self._pools.get(node)
            if pool is None:
                pool = self._pools[node] = Pool(node)
                if self._closed:
                    pool.close(0)
            gone = set(self._pools) - set(self._cluster.nodes) - {node}
            for former in gone:
                self._pools.pop(former).close(0)
        return pool

    def close(self, timeout: float) -> None:
        """Close as `Pool.close` does, all nodes within *timeout* seconds."""
        deadline = monotonic() + timeout
        with self._mutex:
            self._closed = True
            pools = list(self._pools.values())
        for pool in pools:
            pool.close(max(deadline - monotonic(), 0))

    def forget(self) -> None:
        """Close everything in a forked child, without a word on the wire."""
        self._mutex = threading.Lock()
        self._cluster.after_fork()
        for pool in self._pools.values():
            pool.forget()
