"""One server's pipeline: connected when it is first needed, and again when it was lost."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock._links.pipeline import Pipeline
from interlock.errors import ClosedError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Awaitable

    from interlock._core.effects import Eval
    from interlock._links.endpoint import Endpoint
    from interlock.options import PubSub


class Line:
    """What all tasks of one client send to one server by.

    Args:
        endpoint: the server.
        timeout: seconds for connecting, and without an answer after which a connection is dead.
    """

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._pipeline: Pipeline | None = None
        self._ending: Pipeline | None = None
        self._connecting: asyncio.Task[Pipeline] | None = None
        self._closed = False

    async def open(self, pubsub: PubSub, timeout: float) -> None:
        """Do nothing: there is nothing to learn of one server before the first command."""

    def eval(self, call: Eval[object], seconds: float) -> Awaitable[object]:
        """Run *call*; arguments and errors as `Pipeline.eval`."""
        pipeline = self._pipeline
        if pipeline is None or pipeline.dead:
            return self._eval_connected(call, seconds)
        return pipeline.eval(call, seconds)

    async def _eval_connected(self, call: Eval[object], seconds: float) -> object:
        return await (await self._connected(seconds)).eval(call, seconds)

    def ready(self, call: Eval[object]) -> Pipeline | None:
        """Return the connection to send *call* by, if there is one already."""
        del call
        pipeline = self._pipeline
        return None if pipeline is None or pipeline.dead else pipeline

    async def judged(
        self, pipeline: Pipeline, call: Eval[object], reply: object, seconds: float
    ) -> object:
        """Return what becomes of *call*, which *pipeline* has answered by the error *reply*; errors as `Pipeline.eval`."""
        return await pipeline.judged(call, reply, seconds)

    async def ask(self, call: Eval[object], seconds: float) -> object:
        """Run *call* on a node that is just taking its slot over; arguments and errors as `Pipeline.eval`."""
        return await (await self._connected(seconds)).ask(call, seconds)

    async def _connected(self, timeout: float) -> Pipeline:
        if self._closed:
            raise ClosedError("the client is closed")
        if self._pipeline is not None and not self._pipeline.dead:
            return self._pipeline
        if self._connecting is None:
            self._connecting = asyncio.get_running_loop().create_task(self._connect())
            # Those who waited may all be gone when it fails; what it failed by is theirs alone.
            self._connecting.add_done_callback(lambda task: task.cancelled() or task.exception())
        connecting = self._connecting
        done, _ = await asyncio.wait({connecting}, timeout=timeout)
        if not done:
            raise ServerUnavailableError(
                f"no connection to {self._endpoint.where} in {timeout:g} s",
                # It goes on being made, whoever waits: asked again, it may be there.
                transient=self._endpoint.seen or timeout < self._timeout,
            )
        pipeline = connecting.result()
        if self._closed:
            # It closed while this task waited for its turn: what was sent now would come after the releases.
            raise ClosedError("the client is closed")
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
        """Send nothing more, and wait until all that was sent is answered, or will never be; may be repeated."""
        self._closed = True
        if self._pipeline is not None:
            self._ending, self._pipeline = self._pipeline, None
        if self._ending is not None:
            with suppress(ServerUnavailableError):
                await self._ending.finish()

    async def close(self) -> None:
        """Close the connection; whoever still waits hears of it."""
        self._closed = True
        if self._connecting is not None:
            _ = await asyncio.wait({self._connecting})
        for pipeline in (self._ending, self._pipeline):
            if pipeline is not None:
                pipeline.close()
        self._ending = self._pipeline = None
        # A transport closes its socket in the next turn of the loop.
        await asyncio.sleep(0)

    def abort(self) -> None:
        """Close the connection from within its loop, without waiting for anything."""
        self._closed = True
        for pipeline in (self._ending, self._pipeline):
            if pipeline is not None:
                pipeline.close()

    def forget(self) -> None:
        """Be as new in another loop, or in a forked child."""
        self._pipeline = self._ending = self._connecting = None
