"""Asyncio connections for scripts that replicas must confirm.

While a server waits for replicas, it does nothing else for that connection. A WAIT on the
connection that all tasks share would delay the releases of all. So each such script has a
connection to itself until the answer is there. These are opened when needed, and used again.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from interlock._links.connection import REFUSED_WAIT
from interlock._links.pipeline import Pipeline, drop
from interlock._links.replies import left, refusal
from interlock._links.resp import (
    ASKING,
    Attempt,
    ReplyError,
    pack_eval,
    pack_known,
    without_spare,
)
from interlock._links.wait_command import WaitCommand
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval
    from interlock._core.model.replication import Replication
    from interlock._links.endpoint import Endpoint

MAX_CONNECTIONS = 100


class WaitConnections:
    """The connections to one server.

    Args:
        endpoint: the server.
        timeout: seconds without an answer after which a connection is dead. The time of the
            replicas comes on top.
    """

    def __init__(self, endpoint: Endpoint, timeout: float) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self._limit = endpoint.max_connections or MAX_CONNECTIONS
        self._room = asyncio.Semaphore(self._limit)
        self._idle: list[Pipeline] = []
        self._busy: set[Pipeline] = set()
        self._closed = False

    async def eval(
        self, call: Eval[object], confirm: Replication, seconds: float, *, asking: bool = False
    ) -> object:
        """Run *call*, and wait until replicas confirm its grant.

        Arguments and errors as `Pipeline.eval`, or with *asking* `Pipeline.ask`.
        """
        while self._idle and self._idle[-1].dead:
            del self._idle[-1]
        if self._idle and not self._room.locked():
            await self._room.acquire()
            pipeline = self._idle.pop()
        else:
            pipeline = await self._another(confirm, seconds)
        self._busy.add(pipeline)
        try:
            reply = await self._ask(pipeline, call, seconds, asking=asking)
        finally:
            self._give_back(pipeline)
        if isinstance(reply, InterlockError):
            raise reply
        return reply

    async def finish(self) -> None:
        """Refuse new commands, and wait for all replies; errors as `Pipeline.finish`."""
        self._closed = True
        for pipeline in self._busy.copy():
            await pipeline.finish()

    def close(self) -> None:
        """Close all connections; waiters get an error."""
        self._closed = True
        for pipeline in (*self._idle, *self._busy):
            pipeline.close()
        self._idle.clear()

    async def _another(self, confirm: Replication, seconds: float) -> Pipeline:
        """Return one more connection, or one that has come back, within *seconds*."""
        try:
            async with asyncio.timeout(seconds):
                await self._room.acquire()
                if self._idle:
                    return self._idle.pop()
                try:
                    pipeline = await Pipeline.open(
                        self._endpoint, self._timeout + confirm.policy.timeout
                    )
                except BaseException:
                    self._room.release()
                    raise
        except TimeoutError as error:
            raise ServerUnavailableError(
                f"none of {self._limit} connections to {self._endpoint.where} "
                f"was to be had in {seconds:g} s",
                transient=True,
            ) from error
        if self._closed:
            pipeline.close()
        return pipeline

    async def _ask(
        self, pipeline: Pipeline, call: Eval[object], seconds: float, *, asking: bool
    ) -> object:
        wait_command = WaitCommand([call], pipeline)
        if asking:
            _ = pipeline.send(ASKING, more=True).cancel()
            call = without_spare(call)
            script = pack_eval(call)
        else:
            script = pack_known(call, pipeline.known)
        reply, answers = await self._sent(pipeline, wait_command, script, seconds)
        attempt = Attempt(call, pipeline.refused)
        while (again := attempt.again(reply)) is not None:
            drop(answers)
            script = again
            reply, answers = await self._sent(
                pipeline, wait_command, script, seconds + wait_command.timeout
            )
        try:
            if isinstance(reply, ReplyError):
                reply = refusal(
                    str(reply),
                    call,
                    pipeline.where,
                    moves=pipeline.moves,
                    served=pipeline.served,
                )
            replies = [reply]
            if not wait_command.concerns(replies):
                # The answer comes at once unless replicas lag behind what others wrote.
                _ = await asyncio.wait(answers, timeout=REFUSED_WAIT)
            else:
                while not wait_command.heard([await answer for answer in answers]):
                    answers = pipeline.send_all(wait_command.commands())
                wait_command.conclude(replies)
            if left(replies[0]):
                pipeline.close()
            return replies[0]
        finally:
            drop(answers)

    async def _sent(
        self, pipeline: Pipeline, wait_command: WaitCommand, script: bytes, seconds: float
    ) -> tuple[object, list[asyncio.Future[object]]]:
        """Send *script* and *wait_command* in one write.

        Return the reply to *script*, and the slots of the replies to *wait_command*.
        """
        slot, *answers = pipeline.send_all([script, *wait_command.commands()])
        try:
            return await pipeline.reply(slot, seconds), answers
        except BaseException:
            drop(answers)
            raise

    def _give_back(self, pipeline: Pipeline) -> None:
        """Make *pipeline* available again; close it if a reply is still to come."""
        self._busy.discard(pipeline)
        if pipeline.owes:
            pipeline.close()
        if not pipeline.dead:
            self._idle.append(pipeline)
        self._room.release()
