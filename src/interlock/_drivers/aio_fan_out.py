"""Scripts on many servers at once, from one task: everything is sent before any reply is awaited.

A call needs no task of its own if it can be written to a connection at once. The calling task
waits for these replies one after another, while all of them come in. Each other call has a task,
above all a call to a server without a connection. So a server that is down delays no other.

If some replies decide, the others need not come. The connections drop these when they come.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Protocol

from interlock._core.model.effects import LATE
from interlock._links.pipeline import Pipeline, drop
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine, Mapping, Sequence

    from interlock._core.model.effects import Client, Enough, Eval, Gather


class Sender(Protocol):
    """The part of a driver that sends."""

    def begin(
        self, call: Eval[object], seconds: float | None
    ) -> tuple[Pipeline, asyncio.Future[object]] | None:
        """Send *call* if that can be done at once; return the connection and the reply's future.

        The reply may take *seconds*, or as long as *call* says if that is None.
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


async def ask(
    questions: Sequence[tuple[Sender, Eval[object]]], seconds: float | None
) -> list[object]:
    """Run each call for its client; return each one's reply or `InterlockError`.

    *seconds* as for `Gather`.
    """
    replies: list[object] = [None] * len(questions)
    sent: dict[int, tuple[Pipeline, asyncio.Future[object]]] = {}
    others: dict[int, Coroutine[object, object, object]] = {}
    for place, (driver, call) in enumerate(questions):
        begun = driver.begin(call, seconds)
        if begun is None:
            others[place] = driver.prepared(call, seconds)
        else:
            sent[place] = begun
    unusable: dict[int, tuple[Pipeline, Exception]] = {}
    try:
        await _perform(others, replies)
        for place, (pipeline, slot) in sent.items():
            try:
                reply = replies[place] = await slot
            except InterlockError as error:
                reply = error
            if isinstance(reply, Exception):
                unusable[place] = (pipeline, reply)
    except BaseException:
        # The replies still come, and are dropped then.
        drop([slot for _, slot in sent.values()])
        raise
    await _perform(
        {
            place: questions[place][0].judged(pipeline, questions[place][1], reply, seconds)
            for place, (pipeline, reply) in unusable.items()
        },
        replies,
    )
    return replies


async def _perform(
    works: Mapping[int, Coroutine[object, object, object]], replies: list[object]
) -> None:
    """Run *works* at the same time.

    Put each one's reply, or its `InterlockError`, into its place in *replies*.
    """
    if not works:
        return
    results = await asyncio.gather(*works.values(), return_exceptions=True)
    for place, result in zip(works, results, strict=True):
        if isinstance(result, BaseException) and not isinstance(result, InterlockError):
            raise result
        replies[place] = result


async def gather(
    effect: Gather,
    home: Callable[[Client], Sender],
    start: Callable[[Coroutine[object, object, object]], asyncio.Task[object]],
) -> list[object]:
    """Run the calls of *effect*, as `ask` does; return `LATE` for replies that decide nothing.

    *home* returns the driver of a client. *start* starts a task, which may go on when this returns.
    """
    questions = [(home(session), call) for session, call in effect.calls]
    if effect.enough is None:
        return await ask(questions, effect.seconds)
    return await _Arrivals(questions, effect.enough, effect.seconds, start).all_or_enough()


class _Arrivals:
    """Takes replies in the order in which they come, until they decide.

    The arguments are those of `ask` and of `Gather`; *start* starts a task.
    """

    def __init__(
        self,
        questions: Sequence[tuple[Sender, Eval[object]]],
        enough: Enough,
        seconds: float | None,
        start: Callable[[Coroutine[object, object, object]], asyncio.Task[object]],
    ) -> None:
        self._questions = questions
        self._enough = enough
        self._seconds = seconds
        self._start = start
        self._loop = asyncio.get_running_loop()
        self._began = self._loop.time()
        self._replies: list[object] = [LATE] * len(questions)
        self._missing = len(questions)
        self._over: asyncio.Future[None] = self._loop.create_future()
        self._timer: asyncio.TimerHandle | None = None
        self._tasks: list[asyncio.Task[object]] = []

    async def all_or_enough(self) -> list[object]:
        """Send all; return the replies when the last one has come, or enough."""
        slots: list[asyncio.Future[object]] = []
        for place, (driver, call) in enumerate(self._questions):
            begun = driver.begin(call, self._seconds)
            if begun is None:
                self._perform(place, driver.prepared(call, self._seconds))
            else:
                pipeline, slot = begun
                slots.append(slot)
                slot.add_done_callback(partial(self._answered, place, pipeline))
        try:
            await self._over
        except BaseException:
            for task in self._tasks:
                _ = task.cancel()
            raise
        finally:
            if self._timer is not None:
                self._timer.cancel()
            drop([slot for slot in slots if not slot.done()])
        return self._replies

    def _perform(self, place: int, work: Coroutine[object, object, object]) -> None:
        task = self._start(work)
        self._tasks.append(task)
        task.add_done_callback(partial(self._ended, place))

    def _answered(self, place: int, pipeline: Pipeline, slot: asyncio.Future[object]) -> None:
        """Take the reply in *slot*; an error is judged first."""
        if slot.cancelled():
            return  # nobody waits for it
        reply = slot.exception() or slot.result()
        if self._over.done():
            return
        if isinstance(reply, Exception):
            driver, call = self._questions[place]
            self._perform(place, driver.judged(pipeline, call, reply, self._seconds))
        else:
            self._take(place, reply)

    def _ended(self, place: int, task: asyncio.Task[object]) -> None:
        """Take what *task* came to."""
        if task.cancelled():
            _ = self._over.cancel()
            return
        error = task.exception()
        if error is None or isinstance(error, InterlockError):
            self._take(place, error or task.result())
        elif not self._over.done():
            self._over.set_exception(error)

    def _take(self, place: int, reply: object) -> None:
        if self._over.done():
            return
        self._replies[place] = reply
        self._missing -= 1
        if not self._missing:
            self._end()
        elif self._timer is None:
            more = self._enough(place, reply, self._loop.time() - self._began)
            if more is not None:
                self._timer = self._loop.call_later(more, self._end)

    def _end(self) -> None:
        if not self._over.done():
            self._over.set_result(None)
