"""The connections that all tasks of one client share.

There is one for each node. It is opened when it is needed, and again after a loss.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING

from interlock._links.dialling import in_thread
from interlock._links.pipeline import Pipeline
from interlock._links.pool import NodePool
from interlock._links.redirection import Route, ended
from interlock._links.replies import silent
from interlock._links.topology import LEAST
from interlock.errors import ClosedError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock._core.model.effects import Eval
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology
    from interlock.options import PubSub

    Run = Callable[[Eval[object], float, Callable[[], None]], object]

MOMENT = 0.1
"""Seconds for which a connection is waited for when its time is up."""


class _LeftError(Exception):
    """The task that waited for a thread has gone."""


class NodeMultiplexer:
    """The connection to one node, and blocking ones for the scripts that need one for themselves.

    Replicas must confirm these, or their slot is just moving. While a server waits for replicas, it
    does nothing else for that connection: a WAIT on the one that all tasks share would delay the
    releases of all. So each such script has a thread and a connection until the answer is there.

    Args:
        endpoint: the node.
        timeout: seconds for connecting, and of silence after which a connection is dead.

    Attributes:
        has_left: whether it is closed because the node has left the cluster.
    """

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._pipeline: Pipeline | None = None
        self._connecting: asyncio.Task[Pipeline] | None = None
        self._blocking = NodePool(endpoint)
        self._room = asyncio.Semaphore(self._blocking.limit)  # else each task would have a thread
        self._closed = self.has_left = False

    def eval(self, call: Eval[object], seconds: float) -> Awaitable[object]:
        """Run *call*; arguments and errors as `Pipeline.eval`, and ReplicationError."""
        pipeline = self.ready(call)
        if pipeline is not None:
            return pipeline.eval(call, seconds)
        if call.replication is not None:
            return self._aside(self._blocking.confirmed, call, seconds)
        return self._eval_connected(call, seconds)

    async def _eval_connected(self, call: Eval[object], seconds: float) -> object:
        pipeline = await self._connected(seconds)
        return await pipeline.eval(call, seconds)

    async def _aside(self, run: Run, call: Eval[object], seconds: float) -> object:
        """Run *call* in a thread, which gives its connection up soon after this task has gone."""
        loop, room, gone = asyncio.get_running_loop(), self._room, False

        def look() -> None:
            if gone:
                raise _LeftError

        def work() -> object:
            try:
                return run(call, max(round(until - monotonic(), 2), LEAST), look)
            finally:  # not when the task goes: the thread may still connect
                with suppress(RuntimeError):  # the loop is closed
                    _ = loop.call_soon_threadsafe(room.release)

        until = monotonic() + seconds
        try:
            async with asyncio.timeout(seconds):
                _ = await room.acquire()
        except TimeoutError as error:
            raise self._blocking.busy(seconds) from error
        try:
            return await in_thread(work)
        finally:
            gone = True

    def ready(self, call: Eval[object]) -> Pipeline | None:
        """Return the connection that *call* can be sent on at once; None if it must wait."""
        pipeline = self._pipeline
        if pipeline is None or pipeline.dead or call.replication is not None:
            return None
        return pipeline

    def ask(self, call: Eval[object], seconds: float) -> Awaitable[object]:
        """Run *call* on a node that is just taking over its slot.

        Arguments and errors as `eval`.
        """
        return self._aside(self._blocking.ask, call, seconds)

    async def _connected(self, timeout: float) -> Pipeline:
        if self._closed:
            raise ended(self._endpoint, has_left=self.has_left)
        if self._pipeline is not None and not self._pipeline.dead:
            return self._pipeline
        connecting = self._connecting
        if connecting is None:
            connecting = asyncio.get_running_loop().create_task(self._connect())
            # Read the error: all waiters may be gone then, and asyncio would report it as unread.
            connecting.add_done_callback(lambda task: task.cancelled() or task.exception())
            if not connecting.done():  # an eager task may have ended here
                self._connecting = connecting
        done, _ = await asyncio.wait({connecting}, timeout=timeout)
        if not done:
            # If the loop stood still, its timers come first, and then what the thread has done.
            done, _ = await asyncio.wait({connecting}, timeout=MOMENT)
        if not done:
            where, seen, tls = self._endpoint.where, self._endpoint.seen, self._endpoint.tls
            error = silent(where, seen=seen, tls=tls)
            # Connecting goes on without this caller. When the caller asks again, the connection
            # may be there.
            error.transient = seen or timeout < self._timeout
            raise error
        pipeline = connecting.result()
        if self._closed:
            # The client closed while this task waited for its turn. A command that is sent now
            # would come after the releases.
            raise ended(self._endpoint, has_left=self.has_left)
        return pipeline

    async def _connect(self) -> Pipeline:
        try:
            pipeline = await Pipeline.open(self._endpoint, self._timeout)
            if self._closed:
                pipeline.close()
            else:
                self._pipeline = pipeline
            return pipeline
        finally:
            self._connecting = None

    async def answered(self) -> None:
        """Refuse new calls, and wait until all that were sent are answered or have failed.

        It may be repeated.
        """
        self._closed = True
        if self._pipeline is not None:
            with suppress(ServerUnavailableError):
                await self._pipeline.finish()
        await in_thread(partial(self._blocking.close, self._timeout))

    async def close(self) -> None:
        """Close the connection; waiters get an error."""
        self._closed, self._blocking.has_left = True, self.has_left
        if self._connecting is not None:
            _ = await asyncio.wait({self._connecting})
        self.abort()
        # A transport closes its socket in the next turn of the loop.
        await asyncio.sleep(0)

    def abort(self) -> None:
        """Close the connection from within its loop, without waiting for anything."""
        self._closed = True
        if self._pipeline is not None:
            self._pipeline.close()
        self._blocking.close(0)

    def forget(self) -> None:
        """Reset everything, for another loop or in a forked child."""
        self._pipeline = self._connecting = None
        self._blocking.forget()
        self._room = asyncio.Semaphore(self._blocking.limit)


class Multiplexer:
    """The connections of one client: one for each node, chosen by the slot of the keys.

    Args:
        topology: the client's servers.
        timeout: seconds for connecting, and of silence after which a connection is dead.

    Attributes:
        eval: runs a call on the node that serves its keys; arguments and errors as
            `Pipeline.eval`. A redirection is followed.
        ready: returns the connection that a call can be sent on at once. If the reply there is an
            error, or an error comes in its place, pass it to `judged`.
    """

    eval: Callable[[Eval[object], float], Awaitable[object]]
    ready: Callable[[Eval[object]], Pipeline | None]

    def __init__(self, topology: Topology, timeout: float) -> None:
        self._topology = topology
        self._timeout = timeout
        self._by_node: dict[Endpoint, NodeMultiplexer] = {}
        self._leaving: set[asyncio.Task[None]] = set()
        self._closed = False
        self.eval, self.ready = self._eval, self._ready
        if topology.only is not None:
            # A single server redirects nobody: its calls need not pass through here.
            one = self._by_node[topology.only] = NodeMultiplexer(topology.only, timeout)
            self.eval, self.ready = one.eval, one.ready

    async def open(self, pubsub: PubSub, timeout: float) -> None:
        """Learn which node serves which slot, and whether there are sharded channels.

        Errors as `Topology.open`.
        """
        opening = asyncio.wrap_future(self._topology.open(pubsub))
        # Read its error: this caller may have gone when it comes.
        opening.add_done_callback(lambda done: done.cancelled() or done.exception())
        done, _ = await asyncio.wait({opening}, timeout=timeout)
        if not done:
            raise self._topology.silent(timeout)
        opening.result()

    async def _eval(self, call: Eval[object], seconds: float) -> object:
        try:
            owner = self._topology.owner(call.keys[0])
            if owner is None:
                raise self._topology.nobody(call.keys[0])
            one = self._by_node.get(owner) or self._opened(owner)
            return await one.eval(call, seconds)
        except ServerUnavailableError as error:
            failure = error
        return await self._after(call, failure, seconds)

    def _ready(self, call: Eval[object]) -> Pipeline | None:
        owner = self._topology.owner(call.keys[0])
        one = None if owner is None else self._by_node.get(owner)
        return None if one is None else one.ready(call)

    async def judged(
        self, pipeline: Pipeline, call: Eval[object], reply: object, seconds: float
    ) -> object:
        """Return the outcome of *call*, which *pipeline* answered with the error *reply*.

        A redirection is followed. Arguments and errors as `Pipeline.judged`.
        """
        try:
            return await pipeline.judged(call, reply, seconds)
        except ServerUnavailableError as error:
            failure = error
        return await self._after(call, failure, seconds)

    async def _after(
        self, call: Eval[object], failure: ServerUnavailableError, seconds: float
    ) -> object:
        route, deadline = Route(self._topology), monotonic() + seconds
        while True:
            node = route.next(failure)
            one = self._by_node.get(node) or self._opened(node)
            left = max(deadline - monotonic(), LEAST)
            sent: Awaitable[object] = one.ask(call, left) if route.asking else one.eval(call, left)
            try:
                return await sent
            except ServerUnavailableError as error:
                failure = error

    def _opened(self, node: Endpoint) -> NodeMultiplexer:
        """Return a new connection to *node*; close those to nodes that left the cluster."""
        if self._closed:
            raise ClosedError("the client is closed")
        one = self._by_node[node] = NodeMultiplexer(node, self._timeout)
        for former in set(self._by_node) - set(self._topology.nodes) - {node}:
            self._by_node[former].has_left = True
            leaving = asyncio.get_running_loop().create_task(self._by_node.pop(former).close())
            self._leaving.add(leaving)
            leaving.add_done_callback(self._leaving.discard)
        return one

    async def answered(self) -> None:
        """Do the same as `NodeMultiplexer.answered`, on all nodes at once."""
        self._closed = True
        _ = await asyncio.gather(*(one.answered() for one in self._by_node.values()))

    async def close(self) -> None:
        """Close all connections; waiters get an error."""
        self._closed = True
        closing = [one.close() for one in self._by_node.values()]
        _ = await asyncio.gather(*closing, *self._leaving)

    def abort(self) -> None:
        """Do the same as `NodeMultiplexer.abort`, for all nodes."""
        self._closed = True
        for one in self._by_node.values():
            one.abort()

    def forget(self) -> None:
        """Reset everything, for another loop or in a forked child."""
        self._topology.after_fork()
        self._leaving.clear()
        for one in self._by_node.values():
            one.forget()
