"""The driver for asyncio: performs effects in the calling task.

A cancellation, or GeneratorExit, arrives at an await. The face's handler gives up without awaiting
anything, so a second one finds nothing to interrupt.
"""

# It uses the connections of the driver beneath.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from threading import get_ident
from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import NEVER, Batch, Gather, Listen, R, RunOn, Step, Wait
from interlock._drivers.aio_fan_out import FanOut
from interlock._drivers2.awaited import AwaitedDriver
from interlock._drivers2.client import client_of
from interlock.errors import ClosedError, InterlockError

if TYPE_CHECKING:
    from interlock._core.queue.places import Place
    from interlock._drivers.aio import AsyncDriver as FirstDriver


class Bell:
    """Ends a wait of one task; any thread may ring it."""

    __slots__ = ("_loop", "_thread", "_woken")

    def __init__(self) -> None:
        self._loop, self._thread = asyncio.get_running_loop(), get_ident()
        self._woken: asyncio.Future[None] | None = None

    def __call__(self) -> None:
        """Ring."""
        if get_ident() == self._thread:  # no byte need go through the loop's pipe
            self._ring()
        else:
            with suppress(RuntimeError):  # the loop is closed
                _ = self._loop.call_soon_threadsafe(self._ring)

    def _ring(self) -> None:
        if self._woken is not None and not self._woken.done():
            self._woken.set_result(None)

    async def wait(self, place: Place, seconds: float) -> None:
        """Wait for a ring, at most *seconds*, unless *place* was told something."""
        self._woken = self._loop.create_future()  # first: what is told from here on rings it
        timer = None if seconds == NEVER else self._loop.call_later(seconds, self._ring)
        try:
            if place.told is None:
                await self._woken
        finally:
            if timer is not None:
                timer.cancel()


class AsyncDriver(AwaitedDriver):
    """Performs the operations of the client of *first*, which has the connections."""

    def __init__(self, first: FirstDriver) -> None:
        super().__init__(first, client_of(first))
        self._timeout, self._links = first.timeout, first._multiplexer

    async def perform(self, step: Step[R]) -> R:
        """Perform *step*; return its result. The caller handles what ends it early."""
        if self._first._loop is not asyncio.get_running_loop() or not self.client.started:
            await self._begin()
        call = step.begin()
        failure: InterlockError | None = None
        if call is not None:
            pipeline = self._links.ready(call)
            try:
                try:
                    if pipeline is None:
                        reply = await self._links.eval(call, self._timeout)
                    else:
                        # Who asks for a place is in no hurry: that goes with the next command.
                        reply = await (
                            pipeline.send(call.packed, more=True)
                            if call.packed is not None and call.script.name in _JOINS
                            else pipeline.begin(call, self._timeout, step.heard)
                        )
                except InterlockError as error:
                    reply = error
                if isinstance(reply, Exception):
                    reply = await self._first._judged(call, pipeline, reply)
            except InterlockError as error:
                failure = error
            else:
                if step.done(call.script.decode(reply)):
                    return step.result
            del call, pipeline  # many tasks may wait here: save memory
        return await self.run(step.rest(failure))

    async def _begin(self) -> None:
        await self._first._prepare()
        if not (self.client.started or self.closed):
            self.client.start(self._first.publish())

    def _of(self, session: Any) -> AsyncDriver:
        """Return the driver of the client of *session*."""
        return self if session is self.session else AsyncDriver(self._first.home(session))

    async def _gather(self, effect: Gather) -> list[object]:
        drivers = [self._of(session) for session, _ in effect.calls]
        for driver in drivers:
            if not driver.client.started:  # every hold needs that
                await driver._begin()
        calls = [
            (driver._first, call) for driver, (_, call) in zip(drivers, effect.calls, strict=True)
        ]
        keep = self._first._tasks.keep
        return await FanOut(calls, keep, effect.enough, effect.seconds).replies()

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Listen):
            self.client.subscriber.hear(effect.line)
            return None
        if isinstance(effect, Batch):
            evals = [self._first.eval(call) for call in effect.calls]
            return await asyncio.gather(*evals, return_exceptions=True)
        if isinstance(effect, Gather):
            return await self._gather(effect)
        if isinstance(effect, RunOn):
            return await self._of(effect.session).run(effect.op)
        if not isinstance(effect, Wait):
            return await self._first.eval(effect)
        seconds, place = max(0.0, effect.until - self.session.clock()), effect.place
        if place is None:
            await asyncio.sleep(0.0 if self.closed else min(seconds, threading.TIMEOUT_MAX))
        else:
            bell: Any = place.bell
            if bell is None:
                bell = place.bell = Bell()
            if not self.closed:
                await bell.wait(place, seconds)
        if self.closed:
            raise ClosedError("the client was closed while it waited")
        return None


_JOINS = {
    "lock_ask", "fenced_ask", "read_ask", "write_ask", "election_ask", "leased_ask", "limited_ask"
}  # fmt: skip
