"""The pipelines of one client to the nodes of a cluster: one for each node, chosen by the slot of the keys."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import TYPE_CHECKING

from interlock._links.line import Line
from interlock._links.redirection import Route
from interlock.errors import ClosedError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from interlock._core.effects import Eval
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock._links.pipeline import Pipeline
    from interlock.options import PubSub

LEAST = 0.001
"""Seconds for what is to be done when no time is left."""


class ClusterLine:
    """What `Line` is to one server."""

    def __init__(self, cluster: Cluster, timeout: float) -> None:
        self._cluster = cluster
        self._timeout = timeout
        self._lines: dict[Endpoint, Line] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False

    async def open(self, pubsub: PubSub, timeout: float) -> None:
        """Learn who serves what, and whether there are sharded channels; errors as `Cluster.open`."""
        opening = asyncio.wrap_future(self._cluster.open(pubsub))
        done, _ = await asyncio.wait({opening}, timeout=timeout)
        if not done:
            raise self._cluster.silent(timeout)
        opening.result()

    async def eval(self, call: Eval[object], seconds: float) -> object:
        """Run *call* on the node that serves its keys, wherever that is by now.

        Raises:
            InterlockError: as `Pipeline.eval`; a redirection is followed.
        """
        try:
            owner = self._cluster.owner(call.keys[0])
            if owner is None:
                raise self._cluster.nobody(call.keys[0])
            line = self._lines.get(owner) or self._opened(owner)
            return await line.eval(call, seconds)
        except ServerUnavailableError as error:
            return await self._after(call, error, seconds)
        except ClosedError:
            self._check_open(call)
            raise

    def ready(self, call: Eval[object]) -> Pipeline | None:
        """Return the connection to send *call* by, if there is one already."""
        owner = self._cluster.owner(call.keys[0])
        line = None if owner is None else self._lines.get(owner)
        return None if line is None else line.ready(call)

    async def judged(
        self, pipeline: Pipeline, call: Eval[object], reply: object, seconds: float
    ) -> object:
        """As `Line.judged`; a redirection is followed."""
        try:
            return await pipeline.judged(call, reply, seconds)
        except ServerUnavailableError as error:
            return await self._after(call, error, seconds)

    async def _after(
        self, call: Eval[object], failure: ServerUnavailableError, seconds: float
    ) -> object:
        route, deadline = Route(self._cluster), monotonic() + seconds
        while True:
            node = route.next(failure)
            line = self._lines.get(node) or self._opened(node)
            left = max(deadline - monotonic(), LEAST)
            sent: Awaitable[object] = (
                line.ask(call, left) if route.asking else line.eval(call, left)
            )
            try:
                return await sent
            except ServerUnavailableError as error:
                failure = error
            except ClosedError:
                self._check_open(call)
                raise

    def _check_open(self, call: Eval[object]) -> None:
        """Tell that a node has left the cluster just now, with its line; unless the client is closed."""
        if not self._closed:
            raise self._cluster.nobody(call.keys[0]) from None

    def _opened(self, node: Endpoint) -> Line:
        """Return a new line to *node*, and close those to nodes that are no more."""
        if self._closed:
            raise ClosedError("the client is closed")
        line = self._lines[node] = Line(node, self._timeout)
        for former in set(self._lines) - set(self._cluster.nodes) - {node}:
            leaving = asyncio.get_running_loop().create_task(self._lines.pop(former).close())
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
        return line

    async def answered(self) -> None:
        """As `Line.answered`, on all nodes at once."""
        self._closed = True
        _ = await asyncio.gather(*(line.answered() for line in self._lines.values()))

    async def close(self) -> None:
        """Close all connections; whoever still waits hears of it."""
        self._closed = True
        closing = [line.close() for line in self._lines.values()]
        _ = await asyncio.gather(*closing, *self._leaving)

    def abort(self) -> None:
        """As `Line.abort`."""
        self._closed = True
        for line in self._lines.values():
            line.abort()

    def forget(self) -> None:
        """Be as new in another loop, or in a forked child."""
        self._cluster.after_fork()
        self._leaving.clear()
        self._lines.clear()
