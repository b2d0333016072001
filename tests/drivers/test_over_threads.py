"""The base class of drivers over threads: a small library of tasks, and the driver for it.

The driver was written by "Add a driver" of the architecture page. The library cancels a task at
whichever of its waits a test names. So a test can cancel an operation at each of its effects.
"""

# ruff: noqa: D102, D103 - a library that stands for any other

from __future__ import annotations

import gc
import heapq
import itertools
import threading
import types
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from queue import Empty, SimpleQueue
from time import monotonic
from typing import TYPE_CHECKING, Any, TypeVar, TypeVarTuple, Unpack

import pytest
from tests.drivers.protocol_names import lacking
from tests.lock.lock_like import resting
from tests.support.patience import GIVE_UP

import interlock
import interlock.asyncio
from interlock._drivers.over_threads import OverThreads, TaskOwners
from interlock._drivers.protocol import AwaitedDriver
from interlock._links.urls import open_url
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Generator

    import redis

    Call = Callable[[], object]
    Arrange = Callable[[Call], object]

R = TypeVar("R")
A = TypeVarTuple("A")


class Cancelled(BaseException):
    """Ends each wait of a task that is cancelled, unless that is shielded."""


class Task:
    """A coroutine that a loop steps; it is cancelled at its wait number *cancel_at*."""

    def __init__(self, work: Coroutine[Any, Any, object], cancel_at: int) -> None:
        self.work = work
        self.cancel_at = cancel_at
        self.waits = self.shields = self.turn = 0
        self.over = threading.Event()
        self.error: BaseException | None = None


class Here(threading.local):
    """The loop and the task that run in this thread."""

    loop: Loop
    task: Task | None = None


here = Here()


class Loop:
    """Steps tasks by turns, and calls functions, until all tasks have ended."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[Call] = SimpleQueue()
        self._timers: list[tuple[float, int, Call]] = []
        self._numbers = itertools.count()
        self._tasks: set[Task] = set()
        self.call_soon = self._calls.put
        self.pool = ThreadPoolExecutor(8)

    def spawn(self, work: Coroutine[Any, Any, object], cancel_at: int = 0) -> Task:
        task = Task(work, cancel_at)
        self._tasks.add(task)
        self.call_soon(partial(self._step, task, task.turn))
        return task

    def call_later(self, seconds: float, call: Call) -> None:
        heapq.heappush(self._timers, (monotonic() + seconds, next(self._numbers), call))

    def run(self) -> None:
        here.loop = self
        with self.pool:
            while self._tasks:
                due = self._timers[0][0] - monotonic() if self._timers else GIVE_UP
                try:
                    call = self._calls.get(timeout=max(due, 0))
                except Empty:
                    call = heapq.heappop(self._timers)[-1]
                call()
        self._timers.clear()  # they refer to tasks

    def _step(self, task: Task, turn: int) -> None:
        if task.turn != turn:
            return  # a timer that is late
        task.turn += 1
        here.task = task
        try:
            arrange = task.work.send(None)
        except BaseException as error:
            task.error = None if isinstance(error, StopIteration) else error
            task.over.set()
            self._tasks.discard(task)
        else:
            arrange(partial(self.call_soon, partial(self._step, task, task.turn)))
        finally:
            here.task = None


@types.coroutine
def wait_for(arrange: Arrange) -> Generator[Arrange, None, None]:
    """Wait until somebody makes the call that *arrange* is given, in any thread."""
    task = here.task
    assert task is not None
    if not task.shields:
        task.waits += 1
        if 0 < task.cancel_at <= task.waits:
            raise Cancelled
    yield arrange


class Event:
    """An event of the library."""

    def __init__(self) -> None:
        self._set = False
        self._calls: list[Call] = []

    def set(self) -> None:
        self._set = True
        for call in self._calls:
            call()

    def is_set(self) -> bool:
        return self._set

    def arrange(self, resume: Call) -> None:
        self._calls.append(resume)
        if self._set:
            resume()

    async def wait(self) -> None:
        await wait_for(self.arrange)


async def in_thread(function: Callable[[Unpack[A]], R], *args: *A) -> R:
    """Call *function* in a thread. Nothing cancels a task that waits for it."""
    await wait_for(lambda resume: resume())
    future = here.loop.pool.submit(function, *args)
    done = Event()
    soon = here.loop.call_soon
    future.add_done_callback(lambda _: soon(done.set))
    await shielded(done.wait())
    return future.result()


async def shielded(work: Coroutine[Any, Any, R]) -> R:
    task = here.task
    assert task is not None
    task.shields += 1
    try:
        return await work
    finally:
        task.shields -= 1


owners = TaskOwners(lambda: here.task, lambda task: "a task", lambda task: task.over.is_set)


class Driver(OverThreads[Event]):
    """The driver for the library."""

    face = "tests.Client"

    async def in_thread(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        return await in_thread(function, *args)

    async def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        return await in_thread(function, *args)

    async def shielded(self, work: Coroutine[Any, Any, R]) -> R:
        return await shielded(work)

    def make_event(self) -> Event:
        return Event()

    async def wait(self, event: Event, seconds: float | None) -> None:
        def arrange(resume: Call) -> None:
            event.arrange(resume)
            if seconds is not None:
                here.loop.call_later(seconds, resume)

        await wait_for(arrange)

    def make_call_soon(self) -> Callable[[Call], None]:
        return here.loop.call_soon

    def spawn(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        here.loop.spawn(run())


class Client(interlock.asyncio.Client):
    """The client whose methods tasks of the library await."""

    def _new_driver(self, servers: Any, options: Options) -> AwaitedDriver:
        return Driver(servers, options, owners)


def connect(url: str, **changes: Any) -> Client:
    options = Options(**changes)
    return Client(open_url(url, options.credentials), options)


def run(work: Coroutine[Any, Any, object]) -> None:
    """Run *work* as a task of a new loop, and raise what it raised."""
    loop = Loop()
    task = loop.spawn(work)
    loop.run()
    if task.error is not None:
        raise task.error


def test_the_driver_has_every_name() -> None:
    """A driver that derives from the base class has all that an awaited driver must have."""

    async def main() -> None:
        async with connect("redis://localhost:1") as client:
            assert lacking(client._driver, AwaitedDriver) == set()

    run(main())


def test_a_driver_without_a_method_of_its_library_cannot_be_made() -> None:
    """The error names each method that is missing."""
    own = {name: value for name, value in vars(Driver).items() if name not in ("spawn", "wait")}
    lacks: Any = type("Lacks", (OverThreads,), own)
    with pytest.raises(TypeError, match=r"spawn.*wait"):
        lacks(None, Options(), owners)


def test_tasks_take_turns(redis_url: str) -> None:
    """Tasks of two clients take turns, each as its own owner, and their owners end with them."""
    inside = 0
    before = len(owners._owners)

    async def work(client: Client) -> None:
        nonlocal inside
        for _ in range(3):
            async with client.lock("name", timeout=GIVE_UP) as hold:
                inside += 1
                assert inside == 1
                assert hold.valid
                assert await client.lock("name").owned()
                inside -= 1

    async def main() -> None:
        async with connect(redis_url) as one, connect(redis_url) as two:
            tasks = [here.loop.spawn(work(client)) for client in (one, two) for _ in range(3)]
            await until_over(*tasks)
            assert [task.error for task in tasks] == [None] * len(tasks)

    run(main())
    gc.collect()
    assert len(owners._owners) == before


async def until_over(*tasks: Task) -> None:
    for task in tasks:
        await in_thread(task.over.wait)


@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
def test_a_task_is_cancelled_at_each_wait(held: bool, loaded: redis.Redis, redis_url: str) -> None:
    """Wherever a task is cancelled that acquires, works and releases, nothing is left behind."""

    async def work(client: Client) -> None:
        async with client.lock("name", timeout=GIVE_UP):
            pass

    async def main() -> None:
        async with connect(redis_url) as client, connect(redis_url) as other:
            at, ended = 0, False
            while not ended:
                at += 1
                taken = other.lock("name")
                if held:
                    assert await taken.acquire(timeout=0)
                task = here.loop.spawn(work(client), cancel_at=at)
                rests = resting(client)
                while held and not (task.over.is_set() or rests()):
                    await in_thread(task.over.wait, 0.01)
                if held:
                    await taken.release()
                await until_over(task)
                assert isinstance(task.error, Cancelled | None)
                assert task.waits <= at  # no further cancellation reached the clean-up
                assert await taken.acquire(timeout=0), at
                await taken.release()
                ended = task.error is None
            assert at > 2

    run(main())
    assert loaded.keys("*") == []


def test_what_an_ended_task_holds_is_released(redis_url: str) -> None:
    """A task that ends without a release leaves its lock to others."""

    async def main() -> None:
        async with connect(redis_url) as client, connect(redis_url) as other:
            lock = client.lock("name")
            await until_over(here.loop.spawn(lock.acquire()))
            assert await other.lock("name").acquire(timeout=GIVE_UP)
            await other.lock("name").release()

    with pytest.warns(interlock.MisuseWarning, match="was never released"):
        run(main())


def test_changes_are_told(redis_url: str) -> None:
    """A loss sets the event of its hold, and a task in the background tells of changes."""

    async def main() -> None:
        told = Event()
        async with (
            connect(redis_url) as client,
            connect(redis_url) as other,
            client.election("boss").observe(lambda _: told.set()),
        ):
            hold = await other.try_lock("name")
            assert hold is not None
            assert hold.holder is not None
            await told.wait()
            lost = Event()
            hold.on_lost(lost.set)
            assert await client.force_release("name", holder=hold.holder)
            with pytest.raises(interlock.HoldLostError):
                await hold.set_lease(60)
            await lost.wait()
            assert await hold.lost.wait()

    run(main())
