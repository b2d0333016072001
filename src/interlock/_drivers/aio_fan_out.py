"""Scripts on many servers at once, from one task: everything is sent before any reply is awaited.

A call needs no task of its own if it can be written to a connection at once. The task that called
is woken once, when all replies have come. Each other call has a task, above all a call to a server
without a connection. So a server that is down delays no other.

If some replies decide, the others need not come. The connections drop these when they come.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Protocol

from interlock._core.model.calls import LATE
from interlock._links.pipeline import drop
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Sequence

    from interlock._core.locks.together import Enough
    from interlock._core.model.calls import Eval
    from interlock._links.pipeline import Pipeline

    Start = Callable[[Coroutine[object, object, object]], asyncio.Task[object]]


class Sender(Protocol):
    """The part of a driver that sends."""

    def begin(
        self, call: Eval[object], seconds: float | None, then: Callable[[object], None]
    ) -> tuple[Pipeline, asyncio.Future[object]] | None:
        """Send *call* if that can be done at once; return the connection and the reply's future.

        *then* is called with the reply, or with the error in its place. The reply may take
        *seconds*, or as long as *call* says if that is None.
        """
        ...

    async def judged(
        self, pipeline: Pipeline, call: Eval[object], reply: object, seconds: float | None
    ) -> object:
        """Return the outcome of *call*, which *pipeline* answered with the error *reply*."""
        ...

    async def prepared(self, call: Eval[object], seconds: float | None) -> object:
        """Send *call* once everything is in place for it; return its reply."""
        ...


class FanOut:
    """Calls that are sent at once, each for its client.

    Args:
        calls: each with the driver of its client.
        start: starts a task, which may go on when nobody waits for the replies any more.
        enough, seconds: as for `Gather`.
    """

    def __init__(
        self,
        calls: Sequence[tuple[Sender, Eval[object]]],
        start: Start,
        enough: Enough | None = None,
        seconds: float | None = None,
    ) -> None:
        self._calls = calls
        self._start = start
        self._enough = enough
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self._began = 0.0 if enough is None else self._loop.time()
        self._replies: list[object] = [LATE] * len(calls)
        self._missing = set(range(len(calls)))
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._pipelines: dict[int, Pipeline] = {}
        self._slots: list[asyncio.Future[object]] = []
        self._tasks: list[asyncio.Task[object]] = []

    async def replies(self) -> list[object]:
        """Send all; return each one's reply or `InterlockError`, and `LATE` for the others.

        It ends when the last reply has come, or enough.
        """
        seconds = self._seconds
        try:
            for place, (driver, call) in enumerate(self._calls):
                begun = driver.begin(call, seconds, partial(self._heard, place))
                if begun is None:
                    self._perform(place, driver.prepared(call, seconds))
                else:
                    self._pipelines[place], slot = begun
                    self._slots.append(slot)
            await self._over
        except BaseException:
            _ = self._over.cancel()
            for task in self._tasks:
                _ = task.cancel()
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
            if self._tasks or self._missing:
                drop(self._slots)  # replies may still come
        return self._replies

    def _heard(self, place: int, reply: object) -> None:
        """Take the *reply* to the call at *place*; an error is judged first."""
        if isinstance(reply, Exception):
            # The connection is in the middle of its own work.
            _ = self._loop.call_soon(self._judge, place, reply)
        else:
            self._take(place, reply)

    def _judge(self, place: int, reply: Exception) -> None:
        if self._over.done():
            return
        try:
            driver, call = self._calls[place]
            judged = driver.judged(self._pipelines[place], call, reply, self._seconds)
            self._perform(place, judged)
        except BaseException:
            # A Ctrl-C struck. Nothing more may come for this place.
            _ = self._over.cancel()
            raise

    def _perform(self, place: int, work: Coroutine[object, object, object]) -> None:
        task = self._start(work)
        self._tasks.append(task)
        task.add_done_callback(partial(self._ended, place))

    def _ended(self, place: int, task: asyncio.Task[object]) -> None:
        """Take what *task* came to."""
        if task.cancelled():
            _ = self._over.cancel()
            return
        error = task.exception()
        if error is None or isinstance(error, InterlockError):
            self._take(place, error or task.result())
        else:
            with suppress(asyncio.InvalidStateError):  # it is over
                self._over.set_exception(error)

    def _take(self, place: int, reply: object) -> None:
        if self._over.done():
            return
        self._replies[place] = reply
        # Not counted: after a Ctrl-C here the connection ends, and an error comes for this place.
        self._missing.discard(place)
        if not self._missing:
            self._end()
        elif self._enough is not None and self._timer is None:
            more = self._enough(place, reply, self._loop.time() - self._began)
            if more is not None:
                self._timer = self._loop.call_later(more, self._end)

    def _end(self) -> None:
        # A signal handler may cancel the task at any line. Here the connection would end by it.
        with suppress(asyncio.InvalidStateError):
            self._over.set_result(None)
