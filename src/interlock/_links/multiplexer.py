"""The connections that all tasks of one client share.

There is one for each node. It is opened when it is needed, and again after a loss.

Scripts that replicas must confirm, or whose slot is just moving, have a blocking connection and a
thread for themselves. While a server waits for replicas, it does nothing else for that connection:
a WAIT on the one that all tasks share would delay the releases of all.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from interlock._links.dialling import in_thread
from interlock._links.pipeline import Pipeline
from interlock._links.pool import NodePool, Pool
from interlock._links.replies import RedirectedError
from interlock._links.topology import LEAST, Route
from interlock.errors import ClosedError, InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Eval
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology
    from interlock.options import PubSub

MOMENT = 0.1
"""Seconds for which a connection is waited for when its time is up."""


class _LeftError(Exception):
    """The task that waited for a thread has gone."""


class NodeMultiplexer:
    """The connection to one node.

    Args:
        endpoint: the node.
        timeout: seconds for connecting, and of silence after which a connection is dead.

    Attributes:
        pipeline: the connection, which may be dead; None before there was one.
        connecting: the task that connects, while there is one.
    """

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self.pipeline: Pipeline | None = None
        self.connecting: asyncio.Task[Pipeline] | None = None
        self._closed = False

    def ready(self, call: Eval[object]) -> Pipeline | None:
        """Return the connection that *call* can be sent on at once; None if it must wait."""
        pipeline = self.pipeline
        if pipeline is None or pipeline.dead or call.replication is not None:
            return None
        return pipeline

    async def connected(self, timeout: float) -> Pipeline:
        """Return the connection; connect if there is none.

        Raises:
            ServerUnavailableError: no connection within about *timeout* seconds.
            ClosedError: the client is closed.
        """
        if self._closed:
            raise ClosedError("the client is closed")
        if self.pipeline is not None and not self.pipeline.dead:
            return self.pipeline
        connecting = self.connecting
        if connecting is None:
            connecting = asyncio.get_running_loop().create_task(self._connect())
            # Read the error: all waiters may be gone then, and asyncio would report it as unread.
            connecting.add_done_callback(lambda task: task.cancelled() or task.exception())
            if not connecting.done():  # an eager task may have ended here
                self.connecting = connecting
        done, _ = await asyncio.wait({connecting}, timeout=timeout)
        if not done:
            # If the loop stood still, its timers come first, and then what the thread has done.
            done, _ = await asyncio.wait({connecting}, timeout=MOMENT)
        if not done:
            error = self._endpoint.unconnected(TimeoutError())
            # Connecting goes on without this caller. When the caller asks again, the connection
            # may be there.
            error.transient = self._endpoint.seen or timeout < self._timeout
            raise error
        pipeline = connecting.result()
        if self._closed:
            # The client closed while this task waited for its turn. A command that is sent now
            # would come after the releases.
            raise ClosedError("the client is closed")
        return pipeline

    async def _connect(self) -> Pipeline:
        try:
            pipeline = await Pipeline.open(self._endpoint, self._timeout)
            if self._closed:
                pipeline.close()
            else:
                self.pipeline = pipeline
            return pipeline
        finally:
            self.connecting = None

    async def answered(self) -> None:
        """Refuse new calls, and wait until all that were sent are answered or have failed.

        It may be repeated.
        """
        self._closed = True
        if self.pipeline is not None:
            with suppress(ServerUnavailableError):
                await self.pipeline.finish()

    def abort(self) -> None:
        """Close the connection from within its loop; waiters get an error."""
        self._closed = True
        if self.pipeline is not None:
            self.pipeline.close()


class Multiplexer:
    """The connections of one client: one for each node, chosen by the slot of the keys.

    Args:
        topology: the client's servers.
        timeout: seconds for connecting, and of silence after which a connection is dead.

    Attributes:
        ready: returns the connection that a call can be sent on at once, or None. If the reply
            there is an error, or an error comes in its place, pass it to `judged`.
    """

    ready: Callable[[Eval[object]], Pipeline | None]

    def __init__(self, topology: Topology, timeout: float) -> None:
        self._topology = topology
        self._timeout = timeout
        self._by_node: dict[Endpoint, NodeMultiplexer] = {}
        self._blocking = Pool(topology)
        # For the tasks that have threads: there are no more threads than connections.
        self._rooms = WeakKeyDictionary[NodePool, asyncio.Semaphore]()
        self._closed = False
        # A single server redirects nobody: its calls need not pass through here.
        self.ready = self._ready if topology.only is None else self._at(topology.only).ready

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

    async def eval(self, call: Eval[object], seconds: float) -> object:
        """Run *call* on the node that serves its keys; a redirection is followed.

        Arguments and errors as `Pipeline.eval`, and ReplicationError.
        """
        try:
            pipeline = self.ready(call)
            if pipeline is None:
                if call.replication is not None:
                    return await self._aside(call, seconds)
                owner = self._topology.owner(call.keys[0])
                if owner is None:
                    raise self._topology.nobody(call.keys[0])
                pipeline = await self._at(owner).connected(seconds)
            return await pipeline.eval(call, seconds)
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
            left = max(deadline - monotonic(), LEAST)
            if isinstance(failure, RedirectedError) and failure.asking:
                return await self._aside(call, left, failure)
            one = self._at(route.next(failure))
            try:
                pipeline = await one.connected(left)
                return await pipeline.eval(call, left)
            except ServerUnavailableError as error:
                failure = error

    async def _aside(
        self, call: Eval[object], seconds: float, failure: ServerUnavailableError | None = None
    ) -> object:
        """Run *call* in a thread, which gives its connection up soon after this task has gone.

        *failure* is the redirection that it ended with. Errors as `eval`.
        """
        pool = self._blocking.serving(call)
        room = self._rooms.setdefault(pool, asyncio.Semaphore(pool.limit))
        loop, gone, until = asyncio.get_running_loop(), False, monotonic() + seconds

        def look() -> None:
            if gone:
                raise _LeftError

        def work() -> object:
            try:
                left = max(round(until - monotonic(), 2), LEAST)
                if failure is not None:
                    return self._blocking.outcome(call, failure, left, look)
                return self._blocking.batch([call], left, look)[0]
            finally:  # not when the task goes: the thread may still connect
                with suppress(RuntimeError):  # the loop is closed
                    _ = loop.call_soon_threadsafe(room.release)

        try:
            async with asyncio.timeout(seconds):
                _ = await room.acquire()
        except TimeoutError as error:
            raise pool.busy(seconds) from error
        try:
            reply = await in_thread(work)
        finally:
            gone = True
        if isinstance(reply, InterlockError):
            raise reply
        return reply

    def _at(self, node: Endpoint) -> NodeMultiplexer:
        """Return the connection to *node*; with a new one, close those to nodes that have left."""
        one = self._by_node.get(node)
        if one is None:
            if self._closed:
                raise ClosedError("the client is closed")
            one = self._by_node[node] = NodeMultiplexer(node, self._timeout)
            for former in set(self._by_node) - {node, *self._topology.nodes}:
                # One that just connects stays until the next node is new: its tasks still use it.
                if self._by_node[former].connecting is None:
                    pipeline = self._by_node.pop(former).pipeline
                    if pipeline is not None:
                        pipeline.close()
        return one

    async def answered(self) -> None:
        """Refuse new calls, and wait until all that were sent are answered or have failed.

        It may be repeated.
        """
        self._closed = True
        _ = await asyncio.gather(*(one.answered() for one in self._by_node.values()))
        await in_thread(partial(self._blocking.close, self._timeout))

    async def close(self) -> None:
        """Close all connections; waiters get an error."""
        self.abort()
        for one in self._by_node.values():
            if one.connecting is not None:
                _ = await asyncio.wait({one.connecting})
        # A transport closes its socket in the next turn of the loop.
        await asyncio.sleep(0)

    def abort(self) -> None:
        """Close all connections from within their loop, without waiting for anything."""
        self._closed = True
        for one in self._by_node.values():
            one.abort()
        self._blocking.close(0)

    def forget(self) -> None:
        """Reset everything, for another loop or in a forked child."""
        self._blocking.forget()
        self._rooms.clear()
        for one in self._by_node.values():
            one.pipeline = one.connecting = None
