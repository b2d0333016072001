"""What the drivers of tasks have in common: the owner, how an operation is carried on, the events."""

from __future__ import annotations

import asyncio
import inspect
import sys
import weakref
from abc import ABC, abstractmethod
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any

from interlock._core.model.hold import Owner
from interlock._drivers import wrong_type
from interlock._drivers.known_hold import LostState
from interlock._drivers.process.lifecycle import owner_ended, report
from interlock.errors import InterlockError, WrongTypeError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Op, R
    from interlock._core.upkeep.session import Session


_owners: dict[int, tuple[Owner, weakref.ref[asyncio.Task[object]]]] = {}
"""By the id of the task. The reference removes the entry before another task can get the id.

A WeakKeyDictionary takes twice as long.
"""

elsewhere: list[Callable[[], tuple[Owner, object] | None]] = []
"""Of each other library of tasks in use: what returns the owner and the coroutine of its running task."""


def current_owner() -> Owner:
    """Return the owner that stands for the running task.

    Raises:
        RuntimeError: outside of a task.
    """
    task = _running()
    if task is None:
        if (found := _elsewhere()) is not None:
            return found[0]
        raise RuntimeError(
            "this lock must be used from a task of asyncio: with trio, use a client of "
            "interlock.trio.connect(), without tasks one of interlock.connect()"
        )
    known = _owners.get(id(task))
    return _introduced(task) if known is None else known[0]


def lasting_owner() -> Owner:
    """Return the owner that stands for the running task, for what it is to hold after this call.

    Raises:
        RuntimeError: outside of a task; or the calling method is all that the task does.
    """
    owner = current_owner()
    if owner.lasting:
        return owner
    code = sys._getframe(1).f_code  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
    if getattr(_coroutine(), "cr_code", None) is code:
        raise RuntimeError(
            "this call is a task of its own, which would own the lock and ends at once: await it, "
            "and limit the wait by timeout= in place of asyncio.wait_for()"
        )
    owner.lasting = True
    return owner


def _coroutine() -> object:
    """Return the coroutine of the running task."""
    if (task := _running()) is not None:
        return task.get_coro()
    found = _elsewhere()
    return None if found is None else found[1]


def _running() -> asyncio.Task[Any] | None:
    """Return the running task of asyncio."""
    try:
        return asyncio.current_task()
    except RuntimeError:  # no loop of asyncio's runs here
        return None


def _elsewhere() -> tuple[Owner, object] | None:
    """Return the owner and the coroutine of the running task of another library."""
    return next((found for each in elsewhere if (found := each()) is not None), None)


def refuse_inside_task() -> None:
    """Refuse a loop of another library inside a task of asyncio: all its tasks had that owner.

    Raises:
        RuntimeError: a task of asyncio runs in this thread.
    """
    if _running() is not None:
        raise RuntimeError(
            "this loop runs inside a task of asyncio, which would own the locks of all its tasks: "
            "run the loop in a thread, by asyncio.to_thread() for example"
        )


def _introduced(task: asyncio.Task[object]) -> Owner:
    """Return a new owner that stands for *task*."""
    found, key = weakref.ref(task, lambda _: _owners.pop(key, None)), id(task)
    owner = Owner(f"task {task.get_name()!r}", partial(_has_ended, found))
    _owners[key] = owner, found
    reference = owner.reference
    task.add_done_callback(lambda _: owner_ended(reference))
    return owner


def _has_ended(found: weakref.ref[asyncio.Task[object]]) -> bool:
    """Return whether a task has ended, or will never go on."""
    task = found()
    return task is None or task.done() or task.get_loop().is_closed()


class AwaitedDriver(ABC):
    """Performs the operations of one client for tasks, in the loop of whatever library.

    What else a driver must have is what `AsyncDriver` and `TrioDriver` have in common.
    """

    session: Session

    @abstractmethod
    async def _begin(self) -> None:
        """Set up what the first operation needs."""

    @abstractmethod
    async def _perform(self, effect: Any) -> Any:
        """Perform *effect* and return its reply."""

    async def run(self, op: Op[R]) -> R:
        """Perform *op*; return its result."""
        await self._begin()
        reply: Any = None
        failure: InterlockError | None = None
        try:
            while True:
                effect = op.send(reply) if failure is None else op.throw(failure)
                reply = failure = None
                try:
                    reply = await self._perform(effect)
                except InterlockError as error:
                    failure = error
        except StopIteration as stop:
            result: R = stop.value
            return result
        except WrongTypeError as error:
            if not error.found:
                await self.run(wrong_type.explain(error, self.session.options.prefix))
            raise
        finally:
            del failure  # a frame and its error would keep each other alive

    async def run_shielded(self, op: Op[R]) -> R:
        """Perform *op* after a cancellation; return its result."""
        return await self.run(op)


class LostEvent(LostState):
    """An event that is set when a hold has ended without being released."""

    async def wait(self) -> bool:
        """Wait until the hold is lost; return True."""
        if not self.is_set():
            lost, listener = self._driver.new_event()
            if self._hold.listen(listener):
                try:
                    _ = await lost.wait()
                finally:
                    self._hold.unlisten(listener)
        return True


def call_in(loop: asyncio.AbstractEventLoop, callback: Callable[[], object]) -> None:
    """Call *callback* soon in *loop*, from any thread; not at all if the loop is closed."""
    with suppress(RuntimeError):
        loop.call_soon_threadsafe(callback)


async def run_user(what: str, callback: Callable[[], object]) -> None:
    """Call the user's *callback*, and await what it returns; *what* it is in a report of its error."""
    try:
        told = callback()
        if inspect.isawaitable(told):
            await told
    except (Exception, asyncio.CancelledError) as error:  # the user's code; ours goes on
        task = _running()
        # Either something that the callback awaited was cancelled, or this task is.
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        report(what, error)
