"""Where calls are made: plain threads, tasks of asyncio or uvloop, tasks of trio.

A test is an ordinary function. It gives calls to actors, and each actor is one flow of control
that makes them one after another: a thread with a queue, or a task with one.
"""

from __future__ import annotations

import asyncio
import functools
import inspect
import queue
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, Protocol

import pytest
from _pytest.mark.structures import ParameterSet
from tests.support.patience import GIVE_UP

import interlock
import interlock.asyncio

Call = tuple[Callable[[], Any], Future[Any]]


class CancelledHereError(Exception):
    """A call was cancelled by `Actor.cancel`."""


class Actor:
    """A flow of control of its own, which makes the calls that it is given, in turn."""

    def __init__(self, *, awaits: bool) -> None:
        self._awaits = awaits

    def start(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Future[Any]:
        """Let the actor make this call after those before it, and return what will come of it."""
        done: Future[Any] = Future()
        self._put((functools.partial(call, *args, **kwargs), done))
        return done

    def do(self, call: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        return self.start(call, *args, **kwargs).result(GIVE_UP)

    def enter(self, block: Any) -> Any:
        """Do what a ``with`` statement does first."""
        return self.do(block.__aenter__ if self._awaits else block.__enter__)

    def leave(self, block: Any, error: BaseException | None = None) -> Any:
        """Do what a ``with`` statement does last."""
        leave = block.__aexit__ if self._awaits else block.__exit__
        return self.do(leave, None if error is None else type(error), error, None)

    def cancel(self) -> None:
        """Cancel the call that the actor makes now, if its driver can."""
        raise NotImplementedError

    def end(self) -> None:
        """End the flow of control after the calls that were given."""
        raise NotImplementedError

    def _put(self, call: Call) -> None:
        raise NotImplementedError


class World(Protocol):
    """One face on one driver.

    Attributes:
        name: for the test's id.
        face: the module that makes clients.
        cancels: whether a call can be cancelled.
        sleep: waits for some seconds, as its calls wait.
    """

    name: str
    face: Any
    cancels: bool
    sleep: Callable[[float], Any]

    def actor(self) -> Actor: ...

    def end(self) -> None: ...


class ThreadActor(Actor):
    """A plain thread with a queue."""

    def __init__(self) -> None:
        super().__init__(awaits=False)
        self._calls: queue.SimpleQueue[Call | None] = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._serve, daemon=True)
        self._thread.start()

    def _put(self, call: Call) -> None:
        self._calls.put(call)

    def end(self) -> None:
        """End the thread after the calls that were given."""
        self._calls.put(None)
        self._thread.join(GIVE_UP)

    def _serve(self) -> None:
        while (item := self._calls.get()) is not None:
            call, done = item
            if not done.set_running_or_notify_cancel():
                continue
            try:
                done.set_result(call())
            except BaseException as error:
                done.set_exception(error)
            del item, call, done  # what was returned may be waited for to be collected


class Threads:
    """The sync face, with a plain thread for each actor."""

    name = "threads"
    face = interlock
    cancels = False
    sleep = staticmethod(time.sleep)

    def actor(self) -> Actor:
        return ThreadActor()

    def end(self) -> None:
        """Leave the threads, which have ended, alone."""


async def made(call: Callable[[], Any]) -> Any:
    result = call()
    return await result if inspect.isawaitable(result) else result


class TaskActor(Actor):
    """A task with a queue."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__(awaits=True)
        self._loop = loop
        self._calls: asyncio.Queue[Call | None] = asyncio.Queue()
        self._busy = False
        self._ended = asyncio.run_coroutine_threadsafe(self._serve(), loop)

    def _put(self, call: Call | None) -> None:
        self._loop.call_soon_threadsafe(self._calls.put_nowait, call)

    def cancel(self) -> None:
        self._loop.call_soon_threadsafe(self._cancel)

    def _cancel(self) -> None:
        if self._busy:
            self._task.cancel()

    def end(self) -> None:
        self._put(None)
        self._ended.result(GIVE_UP)

    async def _serve(self) -> None:
        self._task = asyncio.current_task()
        assert self._task is not None
        while (item := await self._calls.get()) is not None:
            call, done = item
            if not done.set_running_or_notify_cancel():
                continue
            self._busy = True
            try:
                done.set_result(await made(call))
            except asyncio.CancelledError:
                self._task.uncancel()
                done.set_exception(CancelledHereError())
            except BaseException as error:
                done.set_exception(error)
            self._busy = False
            del item, call, done


def _new_loop(name: str) -> asyncio.AbstractEventLoop:
    if name == "asyncio":
        return asyncio.new_event_loop()
    import uvloop

    return uvloop.new_event_loop()


class Tasks:
    """The asyncio face, with a task for each actor, in a loop that a thread of its own runs."""

    face = interlock.asyncio
    cancels = True
    sleep = staticmethod(asyncio.sleep)

    def __init__(self, name: str = "asyncio") -> None:
        """Start the loop: that of asyncio, or uvloop's."""
        self.name = name
        self._loop = _new_loop(name)
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

    def actor(self) -> Actor:
        return TaskActor(self._loop)

    def end(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(GIVE_UP)
        self._loop.close()


def _trio() -> World:
    # trio and uvloop are no part of the extra `dev`.
    from tests.objects.trio_world import TrioTasks

    return TrioTasks()


WORLDS: dict[str, Callable[[], World]] = {
    "threads": Threads,
    "asyncio": Tasks,
    "trio": _trio,
    "uvloop": functools.partial(Tasks, "uvloop"),
}
"""By name: what starts it."""
WITH_HOSTS = {"trio", "uvloop"}
"""Those that need packages beyond the extra `dev`."""


def played(*names: str) -> pytest.MarkDecorator:
    """Return the mark of a test that is played in these worlds."""
    return pytest.mark.parametrize("world", parameters(*names), indirect=True)


def parameters(*names: str) -> list[ParameterSet]:
    needs = pytest.mark.needs("hosts")
    return [pytest.param(name, marks=[needs] * (name in WITH_HOSTS)) for name in names]
