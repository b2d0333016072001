"""Clients that stand in a queue on the server: in threads of the test, and one in a process."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING, Protocol, TypeVar

from tests.lock.children import Child
from tests.support.servers import wait_until

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis

    import interlock


class Queued(Protocol):
    """Somebody who waits."""

    client: interlock.Client


Q = TypeVar("Q", bound=Queued)


@contextmanager
def entering(
    server: redis.Redis, queue: str, begin: Callable[..., Q]
) -> Iterator[Callable[..., Q]]:
    """Give what makes another client wait in *queue*, in the order of the calls.

    Args:
        server: where the queue is.
        queue: its key.
        begin: takes a pool of threads and the arguments of a call; returns who waits.
    """
    waiting: list[Q] = []
    with ThreadPoolExecutor(10) as pool:

        def enter(**options: object) -> Q:
            before = server.zcard(queue)
            waiting.append(begin(pool, **options))
            wait_until(lambda: server.zcard(queue) > before, 5, "it stands in the queue")
            return waiting[-1]

        yield enter
        for each in waiting:
            each.client.close()


@contextmanager
def first_process(server: redis.Redis, queue: str, code: str, url: str) -> Iterator[Child]:
    """Give a process that says ``waits`` and then waits: it is the first in *queue*."""
    with Child(code, url) as waiter:
        assert waiter.hear() == "waits"
        wait_until(lambda: server.zcard(queue) == 1, 10, "it stands in the queue")
        yield waiter
