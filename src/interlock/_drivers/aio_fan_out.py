"""Scripts on many servers at once, from one task: everything is sent before any reply is awaited.

What can be written to a connection at once costs no task of its own: the calling task waits for
one reply after the other, while all of them come. The rest, a server that is not connected to
above all, is done in tasks, so that one that is down keeps no other waiting.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Protocol

from interlock._links.wait_connection import drop
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Coroutine, Mapping, Sequence

    from interlock._core.effects import Eval
    from interlock._links.pipeline import Pipeline


class Sender(Protocol):
    """A driver, as far as it sends."""

    def begin(self, call: Eval[object]) -> tuple[Pipeline, asyncio.Future[object]] | None:
        """Send *call* if that can be done at once; return by what, and the future of its reply."""
        ...

    async def judged(self, pipeline: Pipeline, call: Eval[object], reply: object) -> object:
        """Return what becomes of *call*, which *pipeline* has answered by the error *reply*."""
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
        # Their places are kept; what comes is dropped.
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
    """Do *works* at the same time, and put what each comes to, its reply or our error, to its place in *replies*."""
    if not works:
        return
    results = await asyncio.gather(*works.values(), return_exceptions=True)
    for place, result in zip(works, results, strict=True):
        if isinstance(result, BaseException) and not isinstance(result, InterlockError):
            raise result
        replies[place] = result
