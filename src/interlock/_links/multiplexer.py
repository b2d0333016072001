"""The connections that all tasks of one client share.

There is one for each node. It is opened when it is needed, and again after a loss.

Scripts that replicas must confirm, or that another node serves, have a blocking connection and a
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

from interlock._links.pipeline import Pipeline
from interlock._links.pool import NodePool, Pool
from interlock._links.replies import returned
from interlock._links.shared import copied, in_thread
from interlock._links.topology import LEAST, Route
from interlock.errors import ClosedError, InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from interlock._core.model.effects import Eval
    from interlock._links.endpoint import Endpoint
    from interlock._links.topology import Topology
    from interlock.options import PubSub

MOMENT = 0.1
"""Seconds for which a connection is waited for when its time is up."""


class Multiplexer:
    """The connections of one client: one for each node, chosen by the slot of the keys.

    Args:
        topology: the client's servers.
        timeout: seconds for connecting, and of silence after which a connection is dead.
    """

    def __init__(self, topology: Topology, timeout: float) -> None:
        self._topology = topology
        self._timeout = timeout
        # By node: the last connection, which may be dead, and the task that makes the next one.
        self._pipelines: dict[Endpoint | None, Pipeline] = {}
        self._connecting: dict[Endpoint, asyncio.Task[Pipeline]] = {}
        self._blocking = Pool(topology)
        # For the tasks that have threads: there are no more threads than connections.
        self._rooms = WeakKeyDictionary[NodePool, asyncio.Semaphore]()
        self._closed = False
        self._only = None if topology.clustered else topology.any_owner()

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
        if (error := opening.exception()) is not None:
            raise copied(error)

    async def eval(self, call: Eval[object], seconds: float) -> object:
        """Run *call* on the node that serves its keys; a redirection is followed.

        Arguments and errors as `Pipeline.eval`, and ReplicationError.
        """
        return await self._followed(self._eval(call, seconds), call, seconds)

    async def _eval(self, call: Eval[object], seconds: float) -> object:
        pipeline = self.ready(call)
        if pipeline is None:
            if call.replication is not None:
                return await self._aside(call, seconds)
            owner = self._topology.owner(call.keys[0])
            if owner is None:
                raise self._topology.nobody(call.keys[0])
            pipeline = await self.connected(owner, seconds)
        return await pipeline.eval(call, seconds)

    def ready(self, call: Eval[object]) -> Pipeline | None:
        """Return the connection that *call* can be sent on at once; None if it must wait.

        If the reply there is an error, or an error comes in its place, pass it to `judged`.
        """
        # Of many calls the keys must first be made.
        owner = self._only or self._topology.owner(call.keys[0])
        pipeline = self._pipelines.get(owner)
        if pipeline is None or pipeline.dead or call.replication is not None:
            return None
        return pipeline

    async def connected(self, node: Endpoint, timeout: float) -> Pipeline:
        """Return the connection to *node*; connect within about *timeout* seconds if there is none."""
        if self._closed:
            raise ClosedError("the client is closed")
        pipeline = self._pipelines.get(node)
        if pipeline is not None and not pipeline.dead:
            return pipeline
        connecting = self._connecting.get(node)
        if connecting is None:
            connecting = asyncio.get_running_loop().create_task(self._connect(node))
            # Read the error: all waiters may be gone then, and asyncio would report it as unread.
            connecting.add_done_callback(lambda task: task.cancelled() or task.exception())
            if not connecting.done():  # an eager task may have ended here
                self._connecting[node] = connecting
        done, _ = await asyncio.wait({connecting}, timeout=timeout)
        if not done:
            # If the loop stood still, its timers come first, and then what the thread has done.
            done, _ = await asyncio.wait({connecting}, timeout=MOMENT)
        if not done:
            error = node.unconnected(TimeoutError())
            # Connecting goes on without this caller. When the caller asks again, the connection
            # may be there.
            error.transient = node.seen or timeout < self._timeout
            raise error
        if (failure := connecting.exception()) is not None:
            raise copied(failure)
        pipeline = connecting.result()
        if self._closed:
            # The client closed while this task waited for its turn. A command that is sent now
            # would come after the releases.
            raise ClosedError("the client is closed")
        return pipeline

    async def _connect(self, node: Endpoint) -> Pipeline:
        """Connect to *node*, and close the connections to nodes that have left."""
        try:
            pipeline = await Pipeline.open(node, self._timeout)
            if self._closed:
                pipeline.close()
                return pipeline
            self._pipelines[node] = pipeline
            for former in set(self._pipelines) - {node, *self._topology.nodes}:
                self._pipelines.pop(former).close()
            return pipeline
        finally:
            _ = self._connecting.pop(node, None)

    async def judged(
        self, pipeline: Pipeline, call: Eval[object], reply: object, seconds: float
    ) -> object:
        """Return the outcome of *call*, which *pipeline* answered with the error *reply*.

        A redirection is followed. Arguments and errors as `Pipeline.judged`.
        """
        return await self._followed(pipeline.judged(call, reply, seconds), call, seconds)

    async def _followed(
        self, outcome: Awaitable[object], call: Eval[object], seconds: float
    ) -> object:
        """Return the *outcome* of *call*: if another node serves it, a thread goes there."""
        try:
            return await outcome
        except ServerUnavailableError as error:
            failure = error
        _ = Route(self._topology).next(failure)  # raises all but a redirection
        return await self._aside(call, seconds)

    async def _aside(self, call: Eval[object], seconds: float) -> object:
        """Run *call* in a thread, which sends nothing more when this task has gone; as `eval`."""
        pool = self._blocking.serving(call)
        room = self._rooms.setdefault(pool, asyncio.Semaphore(pool.limit))
        loop, gone, until = asyncio.get_running_loop(), False, monotonic() + seconds

        def look() -> None:
            if gone:
                raise InterlockError("the task that waited has gone")

        def work() -> object:
            try:
                left = max(round(until - monotonic(), 2), LEAST)
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
        return returned(reply)

    async def answered(self) -> None:
        """Refuse new calls, and wait for the answers to all that were sent, within the time-out.

        It may be repeated.
        """
        self._closed, until = True, monotonic() + self._timeout
        _ = await asyncio.gather(*[each.finish() for each in self._pipelines.values()])
        await in_thread(partial(self._blocking.close, until - monotonic()))

    async def close(self) -> None:
        """Close all connections; waiters get an error."""
        self.abort()
        if self._connecting:
            _ = await asyncio.wait(self._connecting.values())
        # A transport closes its socket in the next turn of the loop.
        await asyncio.sleep(0)

    def abort(self) -> None:
        """Close all connections from within their loop, without waiting for anything."""
        self._closed = True
        for pipeline in self._pipelines.values():
            pipeline.close()
        self._blocking.close(0)

    def forget(self) -> None:
        """Reset everything, for another loop or in a forked child."""
        self._blocking.forget()
        self._rooms.clear()
        self._pipelines.clear()
        self._connecting.clear()
