"""The base class of drivers for a library of tasks, over the connections of a driver for threads.

All waiting is done in the library: for a release, a wake-up, the end of a pause. A round trip to the
server is short, and the driver for threads makes it, in a thread, whose end a cancellation does not
hinder. So a step's first command is read, and what it got is in the step. Connections, renewal and
messages are those of the driver for threads. A library gives what is its own: the abstract methods of
`OverThreads`, and the functions of `TaskOwners`.
"""

from __future__ import annotations

import weakref
from abc import abstractmethod
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar, Unpack

from interlock._core.model.effects import NEVER, Listen, R, RunOn, Step, Wait
from interlock._core.model.hold import Owner, Reference
from interlock._drivers import tasks
from interlock._drivers.awaited_driver import AwaitedDriver, Event
from interlock._drivers.flow import current_owner as thread_owner
from interlock._drivers.process import lifecycle
from interlock._drivers.threads import ThreadDriver
from interlock.errors import ClosedError, ConfigError, InterlockError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine

    from interlock._core.model.effects import A, Op
    from interlock._core.model.hold import Hold
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
            owner.reference = Reference(owner, lifecycle.owner_ended)
        return owner

    def coroutine(self) -> object:
        """Return the coroutine of the running task, or None if no task runs."""
        task = self.running()
        return None if task is None else self._coroutine(task)

    def caller(self) -> Owner:
        """Return the running task, or the thread if no task runs."""
        return self.current() or thread_owner()


class Bell:
    """Ends a wait of one task, or else its next one; any thread may ring it."""

    __slots__ = ("_call_soon", "_driver", "_event")

    def __init__(self, driver: OverThreads[Any]) -> None:
        self._driver = driver
        self._call_soon: Callable[[Callable[[], object]], None] = driver.make_call_soon()
        self._event = driver.make_event()

    def __call__(self) -> None:
        """Ring."""
        self._call_soon(lambda: self._event.set())  # noqa: PLW0108 - the event when it runs

    async def wait(self, seconds: float) -> None:
        """Wait for a ring, at most *seconds*."""
        await self._driver.wait(self._event, None if seconds == NEVER else max(0.0, seconds))
        if self._event.is_set():
            self._event = self._driver.make_event()


_drivers: weakref.WeakValueDictionary[int, OverThreads[Any]] = weakref.WeakValueDictionary()
"""By the id of the session, which lives as long as its driver."""


class OverThreads(AwaitedDriver, Generic[E]):
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
        self.state, self.session = self._threads.state, self._threads.session
        self.observers, self.ending = self._threads.observers, self._threads.ending
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

    def cancel_on_lost(self, hold: Hold) -> None:
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
        """Perform *step*; return its result. Whatever is raised, nothing of *step* is left."""
        try:
            await self._begin()
            call = step.begin()
            failure: InterlockError | None = None
            if call is not None:
                try:
                    reply = await self.in_thread(self._threads.eval, call)
                except InterlockError as error:
                    failure = error
                else:
                    if step.done(call.script.decode(reply)):
                        return step.result
            return await self.run(step.rest(failure))
        except BaseException:
            step.give_up()
            raise

    async def run_shielded(self, op: Op[R]) -> R:
        """Perform *op* where no cancellation reaches it; return its result."""
        return await self.shielded(self.run(op))

    async def _begin(self) -> None:
        tasks.refuse_inside_task()
        if not self._threads.started:
            await self.in_thread(self._threads.begin)

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Listen):
            self._threads.subscriber.hear(effect.line)
            return None
        if isinstance(effect, RunOn):  # it may wait for long, and must not occupy a thread
            threads = self._threads.of(effect.session)
            return await _drivers[id(threads.session)].run(effect.op)
        if not isinstance(effect, Wait):
            return await self.in_thread(self._threads.perform_effect, effect)
        place = effect.place
        bell: Any = None if place is None else place.bell
        if bell is None:
            bell = Bell(self)
            if place is not None:
                place.bell = bell
        if not (self.closed or (place is not None and place.told is not None)):
            await bell.wait(effect.until - self.session.clock())
        if self.closed:
            raise ClosedError("the client was closed while it waited")
        return None

    def new_event(self) -> tuple[E, Callable[[], None]]:
        """Return an event that a task can wait for, and a function that sets it from any thread."""
        event = self.make_event()
        return event, partial(self.make_call_soon(), event.set)

    def on_lost(self, hold: Hold, callback: Callable[[], object]) -> None:
        """Call *callback* in the loop when *hold* is lost, or at once if it is."""
        # No loop may end by an error of the callback.
        tell = partial(lifecycle.run_user, "an on_lost callback", callback)
        listener = partial(self.make_call_soon(), tell)
        if not hold.listen(listener):
            listener()

    def cancelled_by_loss(self, error: BaseException | None, hold: Hold | None) -> bool:
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
