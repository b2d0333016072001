"""The driver for trio: what `OverThreads` asks of trio."""

from __future__ import annotations

import inspect
import math
import weakref
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

import trio

from interlock._drivers.over_threads import OverThreads, TaskOwners
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from interlock._core.model.effects import A, R
    from interlock._core.model.hold import Hold
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint
    from interlock.options import Options

THREADS = 32
"""The most round trips that one client makes at a time in one loop."""


def _running() -> trio.lowlevel.Task | None:
    try:
        return trio.lowlevel.current_task()
    except RuntimeError:
        return None


def _end(task: trio.lowlevel.Task) -> Callable[[], bool]:
    coroutine = task.coro
    return lambda: inspect.getcoroutinestate(coroutine) == inspect.CORO_CLOSED


_owners = TaskOwners(_running, lambda task: f"task {task.name!r}", _end, lambda task: task.coro)


def _call_in(token: trio.lowlevel.TrioToken, callback: Callable[[], object]) -> None:
    """Call *callback* in the loop of *token*, unless that has ended."""
    try:
        token.run_sync_soon(callback)
    except trio.RunFinishedError:
        return


class TrioDriver(OverThreads[trio.Event]):
    """Runs the operations of one client for any number of tasks of one trio loop.

    Args:
        servers: one server, or a cluster.
        options: the client's.
    """

    face = "interlock.trio.Client"

    def __init__(self, servers: Endpoint | Cluster, options: Options) -> None:
        super().__init__(servers, options, _owners)
        # One for each loop: it wakes tasks in the loop that runs.
        self._limiters: weakref.WeakKeyDictionary[trio.lowlevel.TrioToken, trio.CapacityLimiter] = (
            weakref.WeakKeyDictionary()
        )

    async def in_thread(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function* in one of trio's threads; return its result.

        A cancellation is raised before *function* is called, or by a later wait of the task.
        """
        loop = trio.lowlevel.current_trio_token()
        limiter = self._limiters.get(loop)
        if limiter is None:
            limiter = self._limiters[loop] = trio.CapacityLimiter(THREADS)
        return await trio.to_thread.run_sync(function, *args, limiter=limiter)

    async def aside(self, function: Callable[[Unpack[A]], R], *args: *A) -> R:
        """Call *function* in a thread, which a cancellation leaves alone."""
        return await trio.to_thread.run_sync(function, *args, abandon_on_cancel=True)

    async def shielded(self, work: Coroutine[Any, Any, R]) -> R:
        """Await *work* where no cancellation reaches it."""
        with trio.CancelScope(shield=True):
            return await work
        raise AssertionError("nobody cancels this scope")

    def make_event(self) -> trio.Event:
        """Return a new event of trio's."""
        return trio.Event()

    async def wait(self, event: trio.Event, seconds: float | None) -> None:
        """Wait until *event* is set, but no longer than *seconds*."""
        with trio.move_on_after(math.inf if seconds is None else seconds):
            await event.wait()

    def make_call_soon(self) -> Callable[[Callable[[], object]], None]:
        """Return a function that calls a function in the running loop."""
        return partial(_call_in, trio.lowlevel.current_trio_token())

    def spawn(self, run: Callable[[], Coroutine[Any, Any, None]]) -> None:
        """Start a system task that performs *run*."""
        trio.lowlevel.spawn_system_task(run)

    def cancel_on_lost(self, hold: Hold) -> None:
        """Refuse: trio cancels scopes, not tasks.

        Raises:
            ConfigError: always.
        """
        raise ConfigError(
            f"trio cancels scopes, not tasks: use hold.on_lost(scope.cancel) for {hold.name!r}"
        )
