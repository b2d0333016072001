"""One script each on many servers at once, from one thread: everything is sent before any reply is read."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from interlock._core.effects import NEVER
from interlock._drivers import clock
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.effects import Eval
    from interlock._links.connection import Connection
    from interlock._links.pool import Pool


def ask(calls: Sequence[tuple[Pool, Eval[object]]], timeout: float) -> list[object]:
    """Run each call on its pool; return each one's reply or `InterlockError`.

    A server without an idle connection is connected to in a thread of its own, so that one that is down keeps no other
    waiting.

    Args:
        calls: what to run where.
        timeout: seconds for each; its own deadline holds besides.
    """
    replies: list[object] = [None] * len(calls)
    sent: list[tuple[int, Pool, Connection, float]] = []
    threads: list[threading.Thread] = []
    try:
        for i, (pool, call) in enumerate(calls):
            seconds = timeout
            if call.deadline != NEVER:
                seconds = min(timeout, max(call.deadline - clock.now(), 0.001))
            connection = pool.idle()
            if connection is None:
                thread = threading.Thread(target=_alone, args=(replies, i, pool, call, seconds))
                thread.start()
                threads.append(thread)
                continue
            sent.append((i, pool, connection, clock.now() + seconds))
            try:
                connection.begin(call, seconds)
            except InterlockError as error:
                replies[i] = error
        for i, _, connection, until in sent:
            if replies[i] is None:
                try:
                    connection.set_timeout(max(until - clock.now(), 0.001))
                    replies[i] = connection.finish(calls[i][1])
                except InterlockError as error:
                    replies[i] = error
    finally:
        for _, pool, connection, _ in sent:
            pool.take_back(connection)
        for thread in threads:
            thread.join()
    return replies


def _alone(replies: list[object], i: int, pool: Pool, call: Eval[object], seconds: float) -> None:
    try:
        replies[i] = pool.eval(call, seconds)
    except InterlockError as error:
        replies[i] = error
