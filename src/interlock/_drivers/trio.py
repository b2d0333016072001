"""The driver for trio: performs the effects of an operation in the calling task.

Theory. All waiting is done in trio: for a release, a wake-up, the end of a pause. A round trip to
the server is short, and the driver for threads makes it, in one of trio's threads. So connections,
renewal and messages are those of the driver for threads. A cancellation never leaves a reply
behind: it is delivered before a command is sent, or after its reply was read.
"""

from __future__ import annotations

import inspect
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack, cast

import trio

from interlock._core.model.effects import A, Effect, Enqueue, Op, Post, R, RunOn, Step, Wait, ended
from interlock._core.model.holds import Owner
from interlock._drivers import tasks
from interlock._drivers.process import clock, lifecycle
from interlock._drivers.threads import ThreadDriver
from interlock._drivers.threads import current_owner as thread_owner
from interlock._traceback import shorten
from interlock.errors import ClosedError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from interlock._core.model.holds import AnyHold
    from interlock._core.queue.waiter import Waiter
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock.options import Options

THREADS = 32
"""The most round trips that one client makes at a time."""

_owners: weakref.WeakKeyDictionary[trio.lowlevel.Task, Owner] = weakref.WeakKeyDictionary()


def current_owner() -> Owner | None:
    """Return the owner that stands for the running task of trio, or None if there is none."""
    try:
        task = trio.lowlevel.current_task()
    except RuntimeError:
        return None
    owner = _owners.get(task)
    if owner is None:
        coroutine = task.coro
        owner = _owners[task] = Owner(
            f"task {task.name!r}",
            lambda: inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED,
        )
        owner.reference = weakref.ref(owner, lifecycle.owner_ended)
    return owner


tasks.elsewhere.append(current_owner)


def _caller() -> Owner:
    """Return the running task, or the thread if no task runs."""
    return current_owner() or thread_owner()


_drivers: weakref.WeakValueDictionary[int, TrioDriver] = weakref.WeakValueDictionary()
"""By the id of the session, which lives as long as its driver."""


def _call_in(token: trio.lowlevel.TrioToken, callback: Callable[[], object]) -> None:
    """Call *callback* in the loop of *token*, unless that has ended."""
    try:
        token.run_sync_soon(callback)
    except trio.RunFinishedError:
        return


def _call_user(callback: Callable[[], object]) -> None:
    """Call *callback*, and report an error of it."""
    try:
        callback()
    except BaseException as error:  # noqa: BLE001 - trio would end the program by an internal error
        lifecycle.report("an on_lost callback", error)


class Wakeup:
    """Wakes one waiting task; called from any thread."""

    def __init__(self) -> None:
        self._token = trio.lowlevel.current_trio_token()
        self._event = trio.Event()

    def __call__(self) -> None:
        """Ring: end the present wait, or else the next one."""
        _call_in(self._token, lambda: self._event.set())  # noqa: PLW0108 - the event when it runs

    async def wait(self, until: float) -> None:
        """Wait for the next ring, but no longer than until *until*."""
        with trio.move_on_after(max(until - clock.now(), 0)):
            await self._event.wait()
        if self._event.is_set():
            self._event = trio.Event()


def _nothing() -> Op[None]:
    yield from ()


def _alone(effect: Effect) -> Op[object]:
    return (yield effect)


class TrioDriver:
    """Runs the operations of one client for any number of tasks of one trio loop.

    Args:
        servers: one server, or a cluster.
        options: the client's.
    """

    def __init__(self, servers: Endpoint | Cluster, options: Options) -> None:
        self._threads = ThreadDriver(servers, options, _caller)
        self._limiter = trio.CapacityLimiter(THREADS)
        self.session = self._threads.session
        self.observers = self._threads.observers
        self.unclaimed = self._threads.unclaimed
        self._begun = False
        _drivers[id(self.session)] = self

    @property
    def closed(self) -> bool:
        """Return whether `close` was called."""
        return self._threads.closed

    @property
    def ending(self) -> lifecycle.Ending:
        """Return the end of the client."""
        return self._threads.ending

    def named_owner(self, name: str) -> Owner:
        """Return the owner that the word *name* stands for."""
        return self._threads.named_owner(name)

    async def perform(self, step: Step[R]) -> R:
        """Perform *step* and return its result, as `run` does."""
        return await self.run(iter(step))

    async def undo(self, step: Step[R], error: BaseException) -> R:
        """Perform the rest of *step* where no cancellation reaches it; then raise *error*."""
        try:
            if not (step.over() or isinstance(error, GeneratorExit)):
                with trio.CancelScope(shield=True):
                    return await self.run(step.rest(error))
            raise shorten(error)
        finally:
            del error  # it refers to this frame

    async def run(self, op: Op[R]) -> R:
        """Perform *op* and return its result.

        A cancellation is thrown into the operation. No further one reaches its clean-up.
        """
        waiting: list[Waiter] = []
        reply: object = None
        failure: BaseException | None = None
        with trio.CancelScope() as scope:
            try:
                if not self._begun:
                    # The operation must know from the start how messages are published.
                    await self._in_thread(_nothing())
                    self._begun = True
                while True:
                    try:
                        effect = op.send(reply) if failure is None else op.throw(failure)
                        failure = reply = None
                        reply = await self._perform(effect, waiting)
                    except StopIteration as stop:
                        result: R = stop.value
                        return result
                    except BaseException as error:
                        if ended(op):
                            shorten(error)
                            raise
                        failure = error
                        # A clean-up follows a cancellation. After another error *op* may go on.
                        scope.shield = scope.shield or not isinstance(error, Exception)
            finally:
                for waiter in waiting:
                    self.session.waiters.leave(waiter)
        raise AssertionError("nobody cancels this scope")

    async def _perform(self, effect: Effect, waiting: list[Waiter]) -> object:
        if isinstance(effect, Enqueue):
            return self.session.waiters.join(effect.channel, Wakeup(), waiting)
        if isinstance(effect, RunOn):
            driver = _drivers.get(id(effect.session))
            if driver is not None:
                # It may wait for long, and must not occupy a thread.
                return await driver.run(effect.op)
        if isinstance(effect, Post):
            return self._threads.post(effect)
        if not isinstance(effect, Wait):
            return await self._in_thread(_alone(effect))
        wakeup = Wakeup() if effect.waiter is None else cast("Wakeup", effect.waiter.wakeup)
        await wakeup.wait(effect.until)
        if self.closed:
            raise ClosedError("the client was closed while it waited")
        return None

    async def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function* in a thread, while the loop goes on; return its result.

        A cancellation does not stop the thread: it ends by itself.
        """
        return await trio.to_thread.run_sync(function, *args, abandon_on_cancel=True)

    async def _in_thread(self, op: Op[R]) -> R:
        return await trio.to_thread.run_sync(self._threads.run, op, limiter=self._limiter)

    def bell(self) -> tuple[trio.Event, Callable[[], None]]:
        """Return an event that a task can wait for, and a function that sets it from any thread."""
        event = trio.Event()
        return event, partial(_call_in, trio.lowlevel.current_trio_token(), event.set)

    def on_lost(self, hold: AnyHold, callback: Callable[[], object]) -> None:
        """Call *callback* in the loop when *hold* is lost, or at once if it is."""
        reporting = partial(_call_user, callback)
        listener = partial(_call_in, trio.lowlevel.current_trio_token(), reporting)
        if not hold.listen(listener):
            listener()

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], Awaitable[None]]:
        """Start a system task that performs *run*; return a function that waits for its end.

        In the task itself that function returns at once.
        """
        over = trio.Event()
        started: list[trio.lowlevel.Task] = []

        async def perform() -> None:
            try:
                await run()
            finally:
                over.set()

        started.append(trio.lowlevel.spawn_system_task(perform))

        async def ended() -> None:
            if trio.lowlevel.current_task() not in started:
                await over.wait()

        return ended

    def cancel_on_lost(self, hold: AnyHold) -> None:
        """Refuse: trio cancels scopes, not tasks.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"trio cancels scopes, not tasks: use hold.on_lost(scope.cancel) for {hold.name!r}"
        )

    def cancelled_by_loss(self, error: BaseException | None, hold: AnyHold | None) -> bool:
        """Return False: a loss cancels nothing here."""
        del error, hold
        return False

    async def close(self) -> None:
        """Release what is still held and end every thread and connection.

        Errors as `ThreadDriver`.
        """
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._threads.close)
