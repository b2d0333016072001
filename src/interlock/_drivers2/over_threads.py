"""The driver for libraries of tasks over the connections of threads: trio.

All waiting is done in the library; a round trip is made in a thread, whose end a cancellation does
not hinder. So a step's first command is read, and what it got is in the step.
"""

# It uses the driver beneath.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import NEVER, Listen, R, RunOn, Step, Wait
from interlock._drivers import tasks
from interlock._drivers.over_threads import tasks_over
from interlock._drivers2.awaited import AwaitedDriver
from interlock._drivers2.threads import ThreadDriver
from interlock.errors import ClosedError, InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.model.effects import Op
    from interlock._drivers.over_threads import OverThreads


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


class OverThreadsDriver(AwaitedDriver):
    """Performs the operations of the client of *first*, which has the connections."""

    def __init__(self, first: OverThreads[Any]) -> None:
        self._threads = ThreadDriver(first._threads)
        super().__init__(first, self._threads.client)

    async def perform(self, step: Step[R]) -> R:
        """Perform *step*; return its result. The caller handles what ends it early."""
        await self._begin()
        call = step.begin()
        failure: InterlockError | None = None
        if call is not None:
            try:
                reply = await self._first.in_thread(self._threads.send, call)
            except InterlockError as error:
                failure = error
            else:
                if step.done(call.script.decode(reply)):
                    return step.result
        return await self.run(step.rest(failure))

    async def run_shielded(self, op: Op[R]) -> R:
        """Perform *op* where no cancellation reaches it; return its result."""
        result: R = await self._first.shielded(self.run(op))
        return result

    async def _begin(self) -> None:
        tasks.refuse_inside_task()
        if not self.client.started:
            await self._first.in_thread(self._threads.begin)

    async def _perform(self, effect: Any) -> Any:
        if isinstance(effect, Listen):
            self.client.subscriber.hear(effect.line)
            return None
        if isinstance(effect, RunOn):  # it may wait for long, and must not occupy a thread
            threads = self._threads.of(effect.session)
            return await OverThreadsDriver(tasks_over(threads._first)).run(effect.op)
        if not isinstance(effect, Wait):
            return await self._first.in_thread(self._threads.perform_effect, effect)
        place = effect.place
        bell: Any = None if place is None else place.bell
        if bell is None:
            bell = Bell(self._first)
            if place is not None:
                place.bell = bell
        if not (self.closed or (place is not None and place.told is not None)):
            await bell.wait(effect.until - self.session.clock())
        if self.closed:
            raise ClosedError("the client was closed while it waited")
        return None
