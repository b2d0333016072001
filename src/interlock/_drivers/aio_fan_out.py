"""Scripts on many servers at once, from one task: everything is sent before any reply is awaited.

A call needs no task of its own if it can be written to a connection at once. The calling task
waits for these replies one after another, while all of them come in. Each other call has a task,
above all a call to a server without a connection. So a server that is down delays no other.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from interlock._links.wait_connection import drop
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from interlock._core.model.effects import Eval
    from interlock._links.pipeline import Pipeline


class Sender(Protocol):
    """The part of a driver that sends."""

    def begin(self, call: Eval[object]) -> tuple[Pipeline, asyncio.Future[object]] | None:
        """Send *call* if that can be done at once; return the connection and the reply's future."""
        ...

    async def judged(self, pipeline: Pipeline, call: Eval[object], reply: object) -> object:
        """Return the outcome of *call*, which *pipeline* answered with the error *reply*."""
        ...

    async def prepared(self, call: Eval[object]) -> object:
        """Send *call* once everything is in place for it; return its reply."""
        ...


async def ask(questions: Sequence[tuple[Sender, Eval[object]]]) -> list[object]:
    """Run each call for its client; return each one's reply or `InterlockError`."""
    replies: list[object] = [None] * len(questions)
    sent: dict[int, tuple[Pipeline, asyncio.Future[object]]] = {}
    others: dict[int, Coroutine[object, object, object]] = {}
    for place, (driver, call) in enumerate(questions):
        begun = driver.begin(call)
        if begun is None:
            others[place] = driver.prepared(call)
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
            place: questions[place][0].judged(pipeline, questions[place][1], reply)
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
