"""The driver for asyncio: performs effects in the calling task.

A cancellation, or GeneratorExit, arrives at an await. The face's handler gives up without awaiting
anything, so a second one finds nothing to interrupt.
"""

from __future__ import annotations

import asyncio
import threading
import weakref
from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Any, Unpack

from interlock._core.model.effects import (
    GRACE,
    LATE,
    NEVER,
    A,
    Eval,
    Gather,
    Listen,
    R,
    RunOn,
    Step,
    Wait,
    begun,
)
from interlock._drivers.connected import ConnectedDriver, timeout_of
from interlock._drivers.flow import current_owner as thread_owner
from interlock._drivers.process import clock
from interlock._drivers.tasks import AwaitedDriver, call_in, current_owner
from interlock._links.multiplexer import Multiplexer
from interlock._links.resp import pack_evalsha
from interlock._links.shared import in_thread
from interlock.errors import ClosedError, InterlockError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from interlock._core.model.hold import Hold, Owner
    from interlock._core.queue.places import Place
    from interlock._links.topology import Topology
    from interlock.options import Options


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


class AsyncDriver(ConnectedDriver, AwaitedDriver):
    """Performs the operations of one client for any number of tasks of one event loop."""

    face = "interlock.asyncio.Client"

    def __init__(self, servers: Topology, options: Options) -> None:
        self._multiplexer = Multiplexer(servers, timeout_of(servers, options))
        super().__init__(servers, options, self._multiplexer, _user)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks = set[asyncio.Task[None]]()
        # Tasks that were cancelled by a loss, each with the hold that it lost; and the holds whose
        # loss is to cancel each task.
        self._cancelled: weakref.WeakKeyDictionary[asyncio.Task[object], Hold] = (
            weakref.WeakKeyDictionary()
        )
        self._armed: weakref.WeakKeyDictionary[asyncio.Task[object], weakref.WeakSet[Hold]] = (
            weakref.WeakKeyDictionary()
        )

    async def perform(self, step: Step[R]) -> R:
        """Perform *step*; return its result. Whatever is raised, nothing of *step* is left."""
        try:
            if self._loop is not asyncio.get_running_loop() or not self.started:
                await self._begin()
            call = step.begin()
            pipeline = None if call is None else self._multiplexer.ready(call)
            if call is None or pipeline is None:
                return await self.run(begun(step, call))
            failure: InterlockError | None = None
            try:
                # Who asks for a place is in no hurry: that goes with the next command.
                packed = call.packed or pack_evalsha(call)
                reply = await pipeline.send(packed, step.heard, call.script.patient)
            except InterlockError as error:
                reply = error
            try:
                if isinstance(reply, Exception):
                    seconds = self._seconds(call)
                    reply = await self._multiplexer.judged(pipeline, call, reply, seconds)
            except InterlockError as error:
                failure = error
            else:
                if step.done(call.script.decode(reply)):
                    return step.result
            del call, pipeline  # many tasks may wait here: save memory
            return await self.run(step.rest(failure))
        except BaseException:
            step.give_up()  # without an `await`: no second cancellation comes meanwhile
            raise

    async def _begin(self) -> None:
        """Set up, in the running loop, everything that the first operation and every hold need."""
        if self.closed:
            return  # a command to the server raises ClosedError
        if self._loop is not asyncio.get_running_loop():
            self._bind()
        if not self.started:
            await self._multiplexer.open(self.session.options.pubsub, self.timeout)
            self._start_threads()

    async def _gather(self, effect: Gather) -> list[object]:
        """Send each call in a task of its own, so that a server that is down delays no other.

        Replies that come after there were enough are `LATE`: their connections drop them.
        """
        loop = asyncio.get_running_loop()
        began, until = loop.time(), NEVER
        replies: list[object] = [LATE] * len(effect.calls)
        asked = {
            loop.create_task(self.of(session).outcome(call, effect.seconds)): place
            for place, (session, call) in enumerate(effect.calls)
        }
        when = asyncio.ALL_COMPLETED if effect.enough is None else asyncio.FIRST_COMPLETED
        try:
            while asked:
                wait = None if until == NEVER else until - loop.time()
                done, _ = await asyncio.wait(asked, timeout=wait, return_when=when)
                if not done:
                    break
                for place, task in sorted((asked.pop(task), task) for task in done):
                    reply = replies[place] = task.result()
                    now = loop.time()
                    enough = effect.enough
                    more = None if enough is None else enough(place, reply, now - began)
                    if more is not None:
                        until = min(until, now + more)
        finally:
            for task in asked:
                _ = task.cancel()
        return replies

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Listen):
            self.subscriber.hear(effect.line)
            return None
        if isinstance(effect, Gather):
            return await self._gather(effect)
        if isinstance(effect, RunOn):
            return await self.of(effect.session).run(effect.op)
        if not isinstance(effect, Wait):
            return await self._multiplexer.eval(effect, self._seconds(effect))
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

    async def outcome(self, call: Eval[object], seconds: float | None) -> object:
        """Set up everything that a hold needs, then send *call*; return its reply or error.

        It may take *seconds*, or as long as *call* says if that is None.
        """
        try:
            await self._begin()
            limit = self._seconds(call, 0) if seconds is None else min(self.timeout, seconds)
            return await self._multiplexer.eval(call, limit)
        except InterlockError as error:
            return error

    def _bind(self) -> None:
        """Serve the running loop from now on.

        Raises:
            ClosedError: the client serves another loop, which is still open.
        """
        if self._loop is not None and not self._loop.is_closed():
            raise ClosedError(
                "this client serves another event loop; make one client for each loop"
            )
        self._loop = asyncio.get_running_loop()
        self._multiplexer.forget()

    async def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function* in a thread, while the event loop goes on; return its result.

        A cancellation does not stop the thread: it ends by itself.
        """
        return await asyncio.to_thread(function, *args)

    def on_lost(self, hold: Hold, callback: Callable[[], object]) -> None:
        """Run *callback* in the event loop when *hold* is lost."""
        listener = partial(call_in, asyncio.get_running_loop(), callback)
        if not hold.listen(listener):
            listener()

    def new_event(self) -> tuple[asyncio.Event, Callable[[], None]]:
        """Return an event that a task can wait for, and a function that sets it from any thread."""
        event = asyncio.Event()
        return event, partial(call_in, asyncio.get_running_loop(), event.set)

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], Awaitable[None]]:
        """Start a task that performs *run*; return a function that waits for its end.

        In the task itself that function returns at once.
        """
        task = asyncio.get_running_loop().create_task(run())
        self._tasks.add(task)  # asyncio alone would let it be collected
        task.add_done_callback(self._tasks.discard)

        async def ended() -> None:
            if task is not asyncio.current_task():
                _ = await asyncio.wait({task})

        return ended

    def cancel_on_lost(self, hold: Hold) -> None:
        """Cancel the running task when *hold* is lost before its release begins."""
        task = asyncio.current_task()
        if task is None:
            raise RuntimeError(
                "cancel_on_lost must be called from the task that is to be cancelled"
            )
        armed = self._armed.setdefault(task, weakref.WeakSet())
        if hold not in armed:
            armed.add(hold)
            self.on_lost(hold, partial(_cancel, self._cancelled, task, hold))

    def cancelled_by_loss(self, error: BaseException | None, hold: Hold | None) -> bool:
        """Return whether *error* is the cancellation of this task by the loss of *hold*.

        If so, the cancellation is taken back.
        """
        task = asyncio.current_task()
        if not isinstance(error, asyncio.CancelledError) or task is None or hold is None:
            return False
        if self._cancelled.get(task) != hold:
            return False
        del self._cancelled[task]
        _ = task.uncancel()
        return True

    async def close(self) -> None:
        """End as `ThreadDriver.close` does; a call after one that was cancelled goes on from there."""
        self.closed = True
        if self._loop is not None and self._loop.is_closed():  # no task can go on
            self._multiplexer.forget()
        try:
            if not self.ending.over:
                # Nobody can send any more. First wait for the replies that are still to come: then
                # all holds are known.
                deadline = clock.now() + self.timeout
                await self._multiplexer.answered()
                await in_thread(partial(self._end, max(deadline - clock.now(), GRACE)))
        finally:
            if self.ending.over:
                await self._multiplexer.close()

    def end(self) -> None:
        """End as `close` does, from another thread than that of the loop."""
        self.closed = True
        if self._loop is not None:
            call_in(self._loop, self._multiplexer.abort)
        super().end()

    def _forget_connections(self) -> None:
        self._loop = None
        self._multiplexer.forget()


def _cancel(
    cancelled: weakref.WeakKeyDictionary[asyncio.Task[object], Hold],
    task: asyncio.Task[object],
    hold: Hold,
) -> None:
    """Cancel *task*, unless its release of *hold* has begun, or another loss has *cancelled* it."""
    former = cancelled.get(task)
    hold = hold.latest()
    if not task.done() and hold.kept() and not (former and former.kept()):
        cancelled[task] = hold
        _ = task.cancel(f"{hold.name!r} was lost")


def _user() -> Owner:
    """Return the running task, or the thread if no task runs yet."""
    try:
        return current_owner()
    except RuntimeError:
        return thread_owner()
