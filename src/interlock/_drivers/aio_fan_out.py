"""Scripts on many servers at once, from one task: each has a task of its own.

So everything is sent before any reply is awaited, and a server that is down delays no other. If
some replies decide, the others need not come: the connections drop these when they come.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from interlock._core.model.effects import LATE, NEVER
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    from interlock._core.locks.together import Enough


async def ask(
    senders: Sequence[Callable[[], Awaitable[object]]], enough: Enough | None = None
) -> list[object]:
    """Call each of *senders*, which sends a script, and await all at once.

    Return each one's reply or `InterlockError`, and `LATE` for those that came after *enough*,
    which is as for `Gather`.
    """
    loop = asyncio.get_running_loop()
    began, until = loop.time(), NEVER
    replies: list[object] = [LATE] * len(senders)
    asked = {loop.create_task(_outcome(send)): place for place, send in enumerate(senders)}
    when = asyncio.ALL_COMPLETED if enough is None else asyncio.FIRST_COMPLETED
    try:
        while asked:
            wait = None if until == NEVER else until - loop.time()
            done, _ = await asyncio.wait(asked, timeout=wait, return_when=when)
            if not done:
                break
            for place, task in sorted((asked.pop(task), task) for task in done):
                reply = replies[place] = task.result()
                now = loop.time()
                more = None if enough is None else enough(place, reply, now - began)
                if more is not None:
                    until = min(until, now + more)
    finally:
        for task in asked:
            _ = task.cancel()
    return replies


async def _outcome(send: Callable[[], Awaitable[object]]) -> object:
    try:
        return await send()
    except InterlockError as error:
        return error
