"""The base class of drivers for a library of tasks, over the connections of a driver for threads.

Theory. All waiting is done in the library: for a release, a wake-up, the end of a pause. A round
trip to the server is short, and the driver for threads makes it, in a thread. So connections,
renewal and messages are those of the driver for threads. A library gives what is its own: the
abstract methods of `OverThreads`, and the three functions of `TaskOwners`.
"""

from __future__ import annotations

import weakref
from abc import ABC, abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, Unpack, cast

from interlock._core.model.effects import (
    NEVER,
    A,
    Effect,
    Enqueue,
    Op,
    Post,
    R,
    RunOn,
    Step,
    Wait,
    ended,
)
from interlock._core.model.holds import Owner
from interlock._drivers import tasks
from interlock._drivers.flow import current_owner as thread_owner
from interlock._drivers.process import clock, lifecycle
from interlock._drivers.protocol import Event
from interlock._drivers.threads import ThreadDriver
from interlock._traceback import shorten
from interlock.errors import ClosedError, ConfigError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from interlock._core.model.holds import AnyHold
    from interlock._core.queue.waiter import Waiter
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock.options import Options

T = TypeVar("T")
E = TypeVar("E", bound="LibraryEvent")


class LibraryEvent(Event, Protocol):
    """An event of the library. Only its loop calls these methods."""

    def set(self) -> object:
        """Wake all who wait."""
        ...

    def is_set(self) -> bool:
        """Return whether it was set."""
        ...


class TaskOwners(Generic[T]):
    """The owners that stand for the tasks of one library; from now on faces ask it for them.

    An owner lives as long as its task. When the task is gone, its clients release at once what
    nobody else can release.

    Args:
        running: returns the running task of the library, or None if none runs in this thread. A
            task must be hashable, have weak references, and be freed when it has ended.
        label: returns what to call a task in messages.
        end: returns a function that tells whether a task has ended. That function must not refer
            to the task: the owner refers to the function, so the task would never be freed.
        coroutine: returns the coroutine of a task.
    """

    def __init__(
        self,
        running: Callable[[], T | None],
        label: Callable[[T], str],
        end: Callable[[T], Callable[[], bool]],
        coroutine: Callable[[T], object],
    ) -> None:
        self.running = running
        self._label = label
        self._end = end
        self._coroutine = coroutine
        self._owners: weakref.WeakKeyDictionary[T, Owner] = weakref.WeakKeyDictionary()
        tasks.elsewhere.append(self)

    def current(self) -> Owner | None:
        """Return the owner that stands for the running task, or None if no task runs."""
        task = self.running()
        if task is None:
            return None
        owner = self._owners.get(task)
        if owner is None:
            owner = self._owners[task] = Owner(self._label(task), self._end(task))
            # Holds know their owner by this reference. It tells all clients when the task is gone.
            owner.reference = weakref.ref(owner, lifecycle.owner_ended)
        return owner

    def coroutine(self) -> object:
        """Return the coroutine of the running task, or None if no task runs."""
        task = self.running()
        return None if task is None else self._coroutine(task)

    def caller(self) -> Owner:
        """Return the running task, or the thread if no task runs."""
        return self.current() or thread_owner()


_drivers: weakref.WeakValueDictionary[int, OverThreads[Any]] = weakref.WeakValueDictionary()
"""By the id of the session, which lives as long as its driver."""


class Wakeup(Generic[E]):
    """Wakes one waiting task; called from any thread."""

    def __init__(self, driver: OverThreads[E]) -> None:
        self._driver = driver
        self._call_soon = driver.make_call_soon()
        self._event = driver.make_event()

    def __call__(self) -> None:
        """Ring: end the present wait, or else the next one."""
        self._call_soon(lambda: self._event.set())  # noqa: PLW0108 - the event when it runs

    async def wait(self, until: float) -> None:
        """Wait for the next ring, but no longer than until *until*."""
        seconds = None if until == NEVER else max(until - clock.now(), 0)
        await self._driver.wait(self._event, seconds)
        if self._event.is_set():
            self._event = self._driver.make_event()


def _nothing() -> Op[None]:
    yield from ()


def _alone(effect: Effect) -> Op[object]:
    return (yield effect)


class OverThreads(ABC, Generic[E]):
    """Runs the operations of one client for any number of tasks of one loop.

    Args:
        servers: one server, or a cluster.
        options: the client's.
        owners: the owners of the library's tasks.

    Attributes:
        face: what users call the client.
    """

    face: str

    def __init__(
        self, servers: Endpoint | Cluster, options: Options, owners: TaskOwners[Any]
    ) -> None:
        self._owners = owners
        self._threads = ThreadDriver(servers, options, owners.caller)
        self._threads.face = self.face
        self.session = self._threads.session
        self.observers = self._threads.observers
        self.ending = self._threads.ending
        self.unclaimed = self._threads.unclaimed
        self._begun = False
        _drivers[id(self.session)] = self

    # What a library gives.

    @abstractmethod
    async def in_thread(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function* in a thread, while the loop goes on; return its result.

        A cancellation is raised before *function* is called, or by a later wait of the task. It
        never ends the wait for the thread, because nobody would read the reply.
        """
        ...

    @abstractmethod
    async def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function* in a thread, while the loop goes on; return its result.

        A cancellation does not stop the thread: it ends by itself.
        """
        ...

    @abstractmethod
    async def shielded(self, work: Coroutine[Any, Any, R]) -> R:
        """Await *work* where no cancellation reaches it; return its result."""
        ...

    @abstractmethod
    def make_event(self) -> E:
        """Return a new event of the library."""
        ...

    @abstractmethod
    async def wait(self, event: E, seconds: float | None) -> None:
        """Wait until *event* is set, but no longer than *seconds*; None is without a limit."""
        ...

    @abstractmethod
    def make_call_soon(self) -> Callable[[Callable[[], object]], None]:
        """Return a function for any thread: it lets the running loop call a function soon.

        It does nothing if the loop has ended.
        """
        ...

    @abstractmethod
    def spawn(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a task in the background that performs *run*, which raises nothing."""
        ...

    def cancel_on_lost(self, hold: AnyHold) -> None:
        """Refuse. A library that cancels a task from outside may do that.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"tasks of this library are not cancelled from outside: use hold.on_lost() for "
            f"{hold.name!r}"
        )

    # What follows from that.

    @property
    def closed(self) -> bool:
        """Return whether `close` was called."""
        return self._threads.closed

    async def perform(self, step: Step[R]) -> R:
        """Perform *step* and return its result, as `run` does."""
        return await self.run(iter(step))

    async def undo(self, step: Step[R], error: BaseException) -> R:
        """Perform the rest of *step* where no cancellation reaches it; then raise *error*."""
        try:
            if not (step.over() or isinstance(error, GeneratorExit)):
                return await self.shielded(self.run(step.rest(error)))
            raise shorten(error)
        finally:
            del error  # it refers to this frame

    async def run(self, op: Op[R]) -> R:
        """Perform *op* and return its result.

        A cancellation is thrown into the operation. No further one reaches its clean-up.

        Raises:
            RuntimeError: the loop runs inside a task of asyncio.
        """
        waiting: list[Waiter] = []
        try:
            tasks.refuse_inside_task()
            if not self._begun:
                # The operation must know from the start how messages are published.
                await self.in_thread(self._threads.run, _nothing())
                self._begun = True
            try:
                return await self._go_on(op, waiting, None)
            except BaseException as error:
                if ended(op):
                    raise
                return await self.shielded(self._go_on(op, waiting, error))
        except BaseException as error:
            shorten(error)
            raise
        finally:
            for waiter in waiting:
                self.session.waiters.leave(waiter)

    async def _go_on(self, op: Op[R], waiting: list[Waiter], failure: BaseException | None) -> R:
        """Perform the rest of *op*, beginning by throwing *failure* into it.

        Without a *failure*, a cancellation interrupts this: then `run` shields the rest. After any
        other error *op* may go on.
        """
        shielded = failure is not None
        reply: object = None
        try:
            while True:
                try:
                    effect = op.send(reply) if failure is None else op.throw(failure)
                    failure = reply = None
                    reply = await self._perform(effect, waiting)
                except StopIteration as stop:
                    result: R = stop.value
                    return result
                except BaseException as error:
                    # After GeneratorExit nothing may be awaited, and *op* asks for nothing.
                    goes_on = shielded or isinstance(error, (Exception, GeneratorExit))
                    if ended(op) or not goes_on:
                        raise
                    failure = error
        finally:
            del failure  # a frame and its error would keep each other alive

    async def _perform(self, effect: Effect, waiting: list[Waiter]) -> object:
        if isinstance(effect, Enqueue):
            return self.session.waiters.join(effect.line, Wakeup(self), waiting)
        if isinstance(effect, RunOn):
            driver = _drivers.get(id(effect.session))
            if isinstance(driver, type(self)):
                # It may wait for long, and must not occupy a thread.
                return await driver.run(effect.op)
        if isinstance(effect, Post):
            return self._threads.post(effect)
        if not isinstance(effect, Wait):
            return await self.in_thread(self._threads.run, _alone(effect))
        waiter = effect.waiter
        wakeup = Wakeup(self) if waiter is None else cast("Wakeup[E]", waiter.wakeup)
        if not self.closed:  # nobody wakes a waiter that came since `close`
            await wakeup.wait(effect.until)
        if self.closed:
            raise ClosedError("the client was closed while it waited")
        return None

    def new_event(self) -> tuple[E, Callable[[], None]]:
        """Return an event that a task can wait for, and a function that sets it from any thread."""
        event = self.make_event()
        return event, partial(self.make_call_soon(), event.set)

    def on_lost(self, hold: AnyHold, callback: Callable[[], object]) -> None:
        """Call *callback* in the loop when *hold* is lost, or at once if it is."""
        # No loop may end by an error of the callback.
        tell = partial(lifecycle.run_user, "an on_lost callback", callback)
        listener = partial(self.make_call_soon(), tell)
        if not hold.listen(listener):
            listener()

    def cancelled_by_loss(self, error: BaseException | None, hold: AnyHold | None) -> bool:
        """Return False: a loss cancels nothing here."""
        del error, hold
        return False

    def start(self, run: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], Awaitable[None]]:
        """Start a task that performs *run*; return a function that waits for its end.

        In the task itself that function returns at once.
        """
        over = self.make_event()
        started: list[object] = []

        async def perform() -> None:
            started.append(self._owners.running())
            try:
                await run()
            finally:
                over.set()

        self.spawn(perform)

        async def ended() -> None:
            if self._owners.running() not in started:
                await over.wait()

        return ended

    async def close(self) -> None:
        """Release what is still held and end every thread and connection.

        Errors as `ThreadDriver`.
        """
        # Not by `in_thread`, where commands may take all room.
        await self.shielded(self.aside(self._threads.close))
