"""The driver for asyncio: performs the effects of an operation in the calling task."""

from __future__ import annotations

import asyncio
import threading
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Unpack, cast

from interlock._core.model.effects import (
    NEVER,
    A,
    Batch,
    Cleanup,
    Enqueue,
    Eval,
    Gather,
    Op,
    Post,
    R,
    RunOn,
    Step,
    Wait,
    ended,
)
from interlock._core.upkeep.session import GRACE
from interlock._drivers import wrong_type
from interlock._drivers.aio_fan_out import FanOut
from interlock._drivers.aio_tasks import Cancellations, OwnTasks
from interlock._drivers.connected import ConnectedDriver
from interlock._drivers.flow import current_owner as thread_owner
from interlock._drivers.process import clock, lifecycle
from interlock._drivers.tasks import Wakeup, call_in, current_owner, in_thread
from interlock._links.multiplexer import Multiplexer
from interlock._links.topology import topology_of
from interlock._traceback import shorten
from interlock.errors import (
    ClosedError,
    InterlockError,
    WrongTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    from interlock._core.model.holds import AnyHold, Owner
    from interlock._core.queue.waiter import Waiter
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock._links.pipeline import Pipeline
    from interlock.options import Options


class AsyncDriver(ConnectedDriver):
    """Runs the operations of one client for any number of tasks of one event loop.

    Args:
        servers: one server, or a cluster.
        options: the client's.
    """

    face = "interlock.asyncio.Client"

    def __init__(self, servers: Endpoint | Cluster, options: Options) -> None:
        topology = topology_of(servers)
        super().__init__(servers, options, topology, _user)
        self._multiplexer = Multiplexer(topology, self._timeout)
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks = OwnTasks()
        self._cancellations = Cancellations()
        self.session.watchdog.deserted = lifecycle.weakly(self._deserted)
        self._follow_process(self._multiplexer)

    async def perform(self, step: Step[R]) -> R:
        """Perform *step* and return its result.

        The first command is sent without a generator. `run` performs the rest, if there is any.

        A cancellation is thrown into the operation. The clean-up that follows runs to its end,
        even if the task is cancelled again.
        """
        failure: BaseException | None = None
        call = reply = None
        try:
            if self._loop is not asyncio.get_running_loop() or not self._renewer.started:
                await self._prepare()
            call = step.begin()
            if call is not None:
                # `eval` inlined: another coroutine takes 1.5 % of the instructions of a pair.
                seconds = self._timeout if call.deadline == NEVER else self._seconds(call)
                # Bound first: Python 3.11 is slow to call attributes that are not methods.
                ready, decode = self._multiplexer.ready, call.script.decode
                pipeline = ready(call)
                try:
                    reply = await (
                        self._multiplexer.eval(call, seconds)
                        if pipeline is None
                        else pipeline.begin(call, seconds)
                    )
                except InterlockError as error:
                    reply = error
                if isinstance(reply, Exception):
                    reply = await self._judged(call, pipeline, reply)
                if step.done(decode(reply)):
                    return step.result
        except BaseException as error:  # noqa: BLE001 - it is raised again where it can be undone
            failure = error
        try:
            rest = (
                self.undo(step, failure)
                if isinstance(failure, asyncio.CancelledError)
                else self.run(step.rest(failure))
            )
            del failure  # a frame and its error would keep each other alive
            del call, reply  # many tasks may wait here: save memory
            return await rest
        except asyncio.CancelledError as error:
            return await self.undo(step, error)
        except InterlockError as error:
            shorten(error)
            raise

    async def undo(self, step: Step[R], error: BaseException) -> R:
        """Perform the rest of *step* where no cancellation reaches it; then raise *error*."""
        try:
            if step.over() or isinstance(error, GeneratorExit):
                raise shorten(error)
            return await self._finish(step.rest(error), None)
        finally:
            del error  # it refers to this frame

    async def run(self, op: Op[R], cancelled: asyncio.CancelledError | None = None) -> R:
        """Perform *op* and return its result.

        A cancellation is thrown into the operation. The clean-up that follows runs to its end,
        even if the task is cancelled again.

        Args:
            op: the operation.
            cancelled: the cancellation that interrupted *op*, if this performs only its rest.
        """
        await self._prepare()
        reply: object = None
        failure: BaseException | None = cancelled
        waiting: list[Waiter] = []
        try:
            while True:
                try:
                    effect = op.send(reply) if failure is None else op.throw(failure)
                    failure = reply = None
                    if isinstance(effect, Eval):
                        reply = await self.eval(effect)
                    elif isinstance(effect, Wait):
                        self._check_open()  # nobody wakes a waiter that came since `close`
                        wait = self._wait(effect)
                        del effect  # many tasks may wait here: save memory
                        await wait
                        self._check_open()
                    else:
                        reply = await self._perform(effect, waiting)
                except StopIteration as stop:
                    result: R = stop.value
                    return result
                except BaseException as error:
                    if ended(op):
                        shorten(error)
                        raise
                    failure = error
                    if isinstance(error, asyncio.CancelledError):
                        if cancelled is not None:
                            raise
                        return await self._finish(op, error)
        finally:
            for waiter in waiting:
                self.session.waiters.leave(waiter)
                _wakeup(waiter).stop()

    async def eval(self, call: Eval[object]) -> object:
        """Run *call* and return its reply; errors as `Pipeline.eval`.

        A WrongTypeError costs another round trip, to tell what was found.
        """
        pipeline, seconds = self._multiplexer.ready(call), self._seconds(call)
        try:
            reply = await (
                self._multiplexer.eval(call, seconds)
                if pipeline is None
                else pipeline.begin(call, seconds)
            )
        except InterlockError as error:
            reply = error
        return await self._judged(call, pipeline, reply) if isinstance(reply, Exception) else reply

    async def _judged(
        self, call: Eval[object], pipeline: Pipeline | None, reply: Exception
    ) -> object:
        """Return the outcome of *call*, whose *reply* over *pipeline* is an error.

        Without *pipeline* it is the outcome already. Arguments and errors as `Pipeline.judged`.
        """
        try:
            if pipeline is None:
                raise reply
            return await self._multiplexer.judged(pipeline, call, reply, self._seconds(call))
        except WrongTypeError as error:
            asking = wrong_type.types_of(error)
            with suppress(InterlockError):
                wrong_type.describe(error, await self._multiplexer.eval(asking, GRACE))
            raise
        finally:
            del reply  # it refers to this frame

    async def _prepare(self) -> None:
        """Set up, in the running loop, everything that the first operation and every hold need."""
        if self.closed:
            return  # a command to the server raises ClosedError
        if self._loop is not asyncio.get_running_loop():
            self._bind()
        if self._renewer.started:
            return
        options = self.session.options
        await self._multiplexer.open(options.pubsub, self._timeout)
        self.session.announce_by(self._subscriber.publish())
        self._renewer.start()

    async def _finish(self, op: Op[R], error: asyncio.CancelledError | None) -> R:
        """Perform the rest of a cancelled operation where no further cancellation reaches it.

        If *error* is given, it is thrown into the operation first.
        """
        try:
            return await self._tasks.finish(self.run(op, error))
        finally:
            del error  # a frame and its error would keep each other alive

    def _seconds(self, call: Eval[object], least: float = GRACE) -> float:
        """Return the seconds that *call* may take; *least* if its time is up."""
        if call.deadline == NEVER or call.patient:
            return self._timeout
        return min(self._timeout, max(call.deadline - clock.now(), least))

    async def _perform(
        self,
        effect: Batch[object] | Gather | RunOn[object] | Enqueue | Cleanup[object] | Post[object],
        waiting: list[Waiter],
    ) -> object:
        if isinstance(effect, Enqueue):
            assert self._loop is not None
            return self.session.waiters.join(effect.line, Wakeup(self._loop), waiting)
        if isinstance(effect, Cleanup):
            self._renewer.clean_up(effect)
            return None
        if isinstance(effect, Post):
            pipeline = self._multiplexer.ready(effect.call)
            return pipeline is not None and pipeline.post(effect.call, effect.heard)
        if isinstance(effect, RunOn):
            return await self.home(effect.session).run(effect.op)
        if isinstance(effect, Gather):
            calls = [(self.home(session), call) for session, call in effect.calls]
            return await FanOut(calls, self._tasks.keep, effect.enough, effect.seconds).replies()
        return await FanOut([(self, call) for call in effect.evals], self._tasks.keep).replies()

    # The methods that `FanOut` uses, also for operations of other clients.

    def begin(
        self, call: Eval[object], seconds: float | None, then: Callable[[object], None]
    ) -> tuple[Pipeline, asyncio.Future[object]] | None:
        """Send *call* if that can be done at once.

        *then* is called with the reply, or with the error in its place. The reply may take
        *seconds*, or as long as *call* says if that is None. Return the connection and the future
        of the reply. If the reply is an error, pass it to `judged`.

        Return None if `prepared` must send *call*. That includes a script that the connection has
        not run before: the server may not know it, and then asks for its text.
        """
        if self._loop is not asyncio.get_running_loop():
            return None
        pipeline = self._multiplexer.ready(call)
        if pipeline is None or call.script.sha not in pipeline.known or not self._renewer.started:
            return None
        if call.then is not None:
            then = partial(_both, call.then, then)
        return pipeline, pipeline.begin(call, self._limit(call, seconds), then)

    async def judged(
        self, pipeline: Pipeline, call: Eval[object], reply: object, seconds: float | None
    ) -> object:
        """Return the outcome of *call*, which *pipeline* answered with the error *reply*."""
        limit = self._limit(call, seconds)
        return await self._multiplexer.judged(pipeline, call, reply, limit)

    async def prepared(self, call: Eval[object], seconds: float | None) -> object:
        """Set up everything that a hold needs, then send *call*; return its reply."""
        await self._prepare()
        return await self._multiplexer.eval(call, self._limit(call, seconds))

    def _limit(self, call: Eval[object], seconds: float | None) -> float:
        """Return the seconds that *call* may take, *seconds* unless that is None."""
        return self._seconds(call, 0) if seconds is None else min(self._timeout, seconds)

    def _wait(self, effect: Wait) -> Awaitable[None]:
        if effect.waiter is None:
            return asyncio.sleep(min(max(effect.until - clock.now(), 0), threading.TIMEOUT_MAX))
        seconds = None if effect.until == NEVER else effect.until - clock.now()
        return _wakeup(effect.waiter).wait(seconds)

    def _check_open(self) -> None:
        if self.closed:
            raise ClosedError("the client was closed while it waited")

    def _bind(self) -> None:
        """Serve the running loop from now on.

        Raises:
            ClosedError: the client serves another loop, which is still open.
        """
        if self._loop is not None and not self._loop.is_closed():
            raise ClosedError(
                "this client serves another event loop; make one client for each loop"
            )
        waiters = self.session.waiters
        for queue in list(waiters.queues.values()):
            for waiter in list(queue):
                waiters.leave(waiter)  # its loop is closed: nobody may wait behind it
        self._loop = asyncio.get_running_loop()
        self._multiplexer.forget()

    async def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function* in a thread, while the event loop goes on; return its result.

        A cancellation does not stop the thread: it ends by itself.
        """
        return await asyncio.to_thread(function, *args)

    def on_lost(self, hold: AnyHold, callback: Callable[[], object]) -> None:
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
        return self._tasks.start(run)

    def cancel_on_lost(self, hold: AnyHold) -> None:
        """Cancel the running task when *hold* is lost before its release begins."""
        self.on_lost(hold, self._cancellations.of(hold))

    def cancelled_by_loss(self, error: BaseException | None, hold: AnyHold | None) -> bool:
        """Return whether *error* is the cancellation of this task by the loss of *hold*.

        If so, the cancellation is taken back.
        """
        return self._cancellations.take_back(error, hold)

    def _deserted(self) -> bool:
        """Return whether the loop is closed, so that no task can go on."""
        return self._loop is not None and self._loop.is_closed()

    async def close(self) -> None:
        """Release what is still held and end every thread and connection.

        If it was cancelled, another call goes on from there. Once the end is complete, another
        call changes nothing.

        Raises:
            ServerUnavailableError: some holds could not be released; they end with their leases.
        """
        self.closed = True
        self.session.waiters.wake_all()
        if self._deserted():
            self._multiplexer.forget()
        try:
            if not self.ending.over:
                # Nobody can send any more. First wait for the replies that are still to come: then
                # all holds are known.
                deadline = clock.now() + self._timeout
                await self._multiplexer.answered()
                _ = self.session.releases_on_close()
                # A silent server has used up the time, but the releases have another connection.
                left = max(deadline - clock.now(), GRACE)
                await in_thread(partial(self._end, left))
        finally:
            if self.ending.over:
                await self._multiplexer.close()

    def end_dropped(self) -> None:
        """End as `close` does, from another thread than that of the loop."""
        self.closed = True
        if self._loop is not None:
            call_in(self._loop, self._multiplexer.abort)
        super().end_dropped()

    def _forget_connections(self) -> None:
        self._loop = None
        self._multiplexer.forget()


def _user() -> Owner:
    """Return the running task, or the thread if no task runs yet."""
    try:
        return current_owner()
    except RuntimeError:
        return thread_owner()


def _both(one: Callable[[object], None], other: Callable[[object], None], reply: object) -> None:
    """Tell two of a *reply*."""
    one(reply)
    other(reply)


def _wakeup(waiter: Waiter) -> Wakeup:
    return cast("Wakeup", waiter.wakeup)
