"""The driver for trio, over the connections of a driver for threads.

All waiting is done in trio: for a release, a wake-up, the end of a pause. A round trip to the server
is short, and the driver for threads makes it, in a thread, whose end a cancellation does not hinder.
So a step's first command is read, and what it got is in the step. Connections, renewal and messages
are those of the driver for threads.
"""

from __future__ import annotations

import inspect
import math
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import trio

from interlock._core.model.effects import NEVER, Listen, R, RunOn, Step, Wait, performed
from interlock._core.model.hold import Owner, Reference
from interlock._drivers import tasks
from interlock._drivers.flow import current_owner as thread_owner
from interlock._drivers.process import lifecycle
from interlock._drivers.threads import ThreadDriver
from interlock.errors import ClosedError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from interlock._core.model.effects import A, Op
    from interlock._core.model.hold import Hold
    from interlock._links.topology import Topology
    from interlock.options import Options

THREADS = 32
"""The most round trips that one client makes at a time in one loop."""


def _running() -> trio.lowlevel.Task | None:
    try:
        return trio.lowlevel.current_task()
    except RuntimeError:
        return None


_owners: weakref.WeakKeyDictionary[trio.lowlevel.Task, Owner] = weakref.WeakKeyDictionary()
"""An owner lives as long as its task.

When the task is gone, its clients release at once what nobody else can release.
"""


def _here() -> tuple[Owner, object] | None:
    """Return the owner that stands for the running task, and its coroutine; None if no task runs."""
    task = _running()
    if task is None:
        return None
    owner = _owners.get(task)
    if owner is None:
        owner = _owners[task] = Owner(f"task {task.name!r}", _end(task.coro))
        # Holds know their owner by this reference. It tells all clients when the task is gone.
        owner.reference = Reference(owner, lifecycle.owner_ended)
    return owner, task.coro


tasks.elsewhere.append(_here)  # from now on faces ask for it


def _end(coroutine: Any) -> Callable[[], bool]:
    """Return what tells whether a task has ended; a reference to the task would keep it alive."""
    return lambda: inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


def _caller() -> Owner:
    """Return the running task, or the thread if no task runs."""
    here = _here()
    return thread_owner() if here is None else here[0]


def _call_soon() -> Callable[[Callable[[], object]], None]:
    """Return what has the running loop call a function, from any thread, unless that loop has ended."""
    return partial(_call_in, trio.lowlevel.current_trio_token())


def _call_in(token: trio.lowlevel.TrioToken, callback: Callable[[], object]) -> None:
    try:
        token.run_sync_soon(callback)
    except trio.RunFinishedError:
        return


class Bell:
    """Ends a wait of one task, or else its next one; any thread may ring it."""

    __slots__ = ("_call_soon", "_event")

    def __init__(self) -> None:
        self._call_soon, self._event = _call_soon(), trio.Event()

    def __call__(self) -> None:
        """Ring."""
        self._call_soon(lambda: self._event.set())  # noqa: PLW0108 - the event when it runs

    async def wait(self, seconds: float) -> None:
        """Wait for a ring, at most *seconds*."""
        with trio.move_on_after(math.inf if seconds == NEVER else max(0.0, seconds)):
            await self._event.wait()
        if self._event.is_set():
            self._event = trio.Event()


class TrioDriver(tasks.AwaitedDriver):
    """Runs the operations of one client for any number of tasks of one trio loop."""

    face = "interlock.trio.Client"

    def __init__(self, servers: Topology, options: Options) -> None:
        self._threads = ThreadDriver(servers, options, _caller)
        self._threads.face = self.face
        self.session = self._threads.session
        self.observers, self.ending = self._threads.observers, self._threads.ending
        # One for each loop: it wakes tasks in the loop that runs.
        self._limiters: weakref.WeakKeyDictionary[trio.lowlevel.TrioToken, trio.CapacityLimiter] = (
            weakref.WeakKeyDictionary()
        )
        self._threads.over = weakref.ref(self)

    @property
    def closed(self) -> bool:
        """Return whether `close` was called."""
        return self._threads.closed

    async def perform(self, step: Step[R]) -> R:
        """Perform *step*; return its result. Whatever is raised, nothing of *step* is left."""
        try:
            return await self.run(performed(step))
        except BaseException:
            step.give_up()
            raise

    async def run_shielded(self, op: Op[R]) -> R:
        """Perform *op* where no cancellation reaches it; return its result."""
        with trio.CancelScope(shield=True):
            return await self.run(op)
        raise AssertionError("nobody cancels this scope")

    async def _begin(self) -> None:
        tasks.refuse_inside_task()
        if not self._threads.started:
            await self._in_thread(self._threads.begin)

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Listen):
            self._threads.subscriber.hear(effect.line)
            return None
        if isinstance(effect, RunOn):  # it may wait for long, and must not occupy a thread
            over: Any = self._threads.of(effect.session).over()
            return await over.run(effect.op)
        if not isinstance(effect, Wait):
            return await self._in_thread(self._threads.perform_effect, effect)
        place = effect.place
        bell: Any = None if place is None else place.bell
        if bell is None:
            bell = Bell()
            if place is not None:
                place.bell = bell
        if not (self.closed or (place is not None and place.told is not None)):
            await bell.wait(effect.until - self.session.clock())
        if self.closed:
            raise ClosedError("the client was closed while it waited")
        return None

    async def _in_thread(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function* in one of trio's threads; return its result.

        A cancellation is raised before *function* is called, or by a later wait of the task. It
        never ends the wait for the thread, because nobody would read the reply.
        """
        loop = trio.lowlevel.current_trio_token()
        limiter = self._limiters.get(loop)
        if limiter is None:
            limiter = self._limiters[loop] = trio.CapacityLimiter(THREADS)
        return await trio.to_thread.run_sync(function, *args, limiter=limiter)

    async def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function* in a thread, which a cancellation leaves alone; return its result."""
        return await trio.to_thread.run_sync(function, *args, abandon_on_cancel=True)

    def new_event(self) -> tuple[trio.Event, Callable[[], None]]:
        """Return an event that a task can wait for, and a function that sets it from any thread."""
        event = trio.Event()
        return event, partial(_call_soon(), event.set)

    def on_lost(self, hold: Hold, callback: Callable[[], object]) -> None:
        """Call *callback* in the loop when *hold* is lost, or at once if it is."""
        # No loop may end by an error of the callback.
        tell = partial(lifecycle.run_user, "an on_lost callback", callback)
        listener = partial(_call_soon(), tell)
        if not hold.listen(listener):
            listener()

    def cancel_on_lost(self, hold: Hold) -> None:
        """Refuse: trio cancels scopes, not tasks.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"trio cancels scopes, not tasks: use hold.on_lost(scope.cancel) for {hold.name!r}"
        )

    def cancelled_by_loss(self, error: BaseException | None, hold: Hold | None) -> bool:
        """Return False: a loss cancels nothing here."""
        del error, hold
        return False

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], Awaitable[None]]:
        """Start a system task that performs *run*; return a function that waits for its end.

        In the task itself that function returns at once.
        """
        over = trio.Event()

        async def perform() -> None:
            try:
                await run()
            finally:
                over.set()

        task = trio.lowlevel.spawn_system_task(perform)

        async def ended() -> None:
            if _running() is not task:
                await over.wait()

        return ended

    async def close(self) -> None:
        """Release what is still held and end every thread and connection.

        Errors as `ThreadDriver`.
        """
        with trio.CancelScope(shield=True):
            # Not by `_in_thread`, where commands may take all room.
            await self.aside(self._threads.close)
