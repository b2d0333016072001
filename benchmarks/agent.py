"""A process with the workers of one peer, which does what the lines on its standard input say.

Started as `python -m benchmarks.agent`. Each line in is a JSON object with `do`, each line out the
answer, or `error`. The agents in Java and Go speak the same. All times are seconds of the monotonic
clock that the processes of a machine share.

* `open` peer kind url name apart workers work: opens a session. Each worker makes one pair under a
  name of its own, which connects it. Then it has the lock *name*, or if *apart* that of its own
  name. *work* is how long a worker holds the lock, in seconds.
* `contend` opens closes: from *opens* to *closes* each worker acquires and releases its lock.
  -> workers: the times of each, three for a turn: asked, got, gave.
* `acquire` -> at: the first worker has taken its lock.
* `release` -> at: it is about to give it back.
* `close`: the end of the session and the process.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
import threading
import time
from concurrent.futures import Future
from contextlib import AsyncExitStack, ExitStack, aclosing, closing
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any

from benchmarks.peers import TASKS, THREADS

if TYPE_CHECKING:
    from collections.abc import Callable

    from benchmarks.peers import AsyncLock, AsyncMake, Make, SyncLock

clock = time.monotonic
Order = dict[str, Any]


class RefusedError(Exception):
    """A lock was not acquired, although nothing limits the wait."""

    def __init__(self) -> None:
        super().__init__("acquire returned without the lock")


def own_name(order: Order, number: int) -> str:
    """Return the name that the worker *number* of this process shares with nobody."""
    return f"{order['name']}:{os.getpid()}:{number}"


def repeat(lock: SyncLock, opens: float, closes: float, work: float) -> list[float]:
    """Take turns until *closes*; return the times of each turn, one after the other."""
    times: list[float] = []
    acquire, release = lock.acquire, lock.release
    time.sleep(max(0.0, opens - clock()))
    while (asked := clock()) < closes:
        if not acquire():
            raise RefusedError
        got = clock()
        if work:
            time.sleep(work)
        times += (asked, got, clock())
        release()
    return times


async def repeat_async(lock: AsyncLock, opens: float, closes: float, work: float) -> list[float]:
    """Take turns as `repeat` does."""
    times: list[float] = []
    acquire, release = lock.acquire, lock.release
    await asyncio.sleep(max(0.0, opens - clock()))
    while (asked := clock()) < closes:
        if not await acquire():
            raise RefusedError
        got = clock()
        if work:
            await asyncio.sleep(work)
        times += (asked, got, clock())
        await release()
    return times


def acquired(lock: SyncLock) -> float:
    """Take *lock*; return when it was taken."""
    if not lock.acquire():
        raise RefusedError
    return clock()


def released(lock: SyncLock) -> float:
    """Give *lock* back; return when that began."""
    at = clock()
    lock.release()
    return at


async def acquired_async(lock: AsyncLock) -> float:
    """Take *lock*, as `acquired` does."""
    if not await lock.acquire():
        raise RefusedError
    return clock()


async def released_async(lock: AsyncLock) -> float:
    """Give *lock* back, as `released` does."""
    at = clock()
    await lock.release()
    return at


def ready(make: Make, order: Order, number: int) -> SyncLock:
    """Connect a worker, and return its lock."""
    lock = make(own_name(order, number))
    acquired(lock)
    lock.release()
    return lock if order["apart"] else make(order["name"])


async def ready_async(make: AsyncMake, order: Order, number: int) -> AsyncLock:
    """Connect a worker, as `ready` does."""
    lock = await make(own_name(order, number))
    await acquired_async(lock)
    await lock.release()
    return lock if order["apart"] else await make(order["name"])


class Worker(threading.Thread):
    """A plain thread, which owns what its calls acquire: the jobs of a pool are many owners."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self.start()

    def submit(self, call: Callable[..., Any], *words: Any) -> Future[Any]:
        """Let it make a call."""
        done: Future[Any] = Future()
        self._calls.put((done, partial(call, *words)))
        return done

    def run(self) -> None:
        """Make the calls."""
        while (asked := self._calls.get()) is not None:
            done, call = asked
            try:
                done.set_result(call())
            except BaseException as error:  # noqa: BLE001 - who asked raises it
                done.set_exception(error)

    def close(self) -> None:
        """End it."""
        self._calls.put(None)
        self.join()


class AsyncWorker:
    """A task, which owns what its calls acquire."""

    def __init__(self) -> None:
        self._calls: asyncio.Queue[tuple[asyncio.Future[Any], Callable[[], Any]] | None]
        self._calls = asyncio.Queue()
        self._task = asyncio.create_task(self._run())

    def submit(self, call: Callable[..., Any], *words: Any) -> asyncio.Future[Any]:
        """Let it make a call."""
        done: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._calls.put_nowait((done, partial(call, *words)))
        return done

    async def _run(self) -> None:
        while (asked := await self._calls.get()) is not None:
            done, call = asked
            try:
                done.set_result(await call())
            except Exception as error:  # noqa: BLE001 - who asked raises it
                done.set_exception(error)

    async def aclose(self) -> None:
        """End it."""
        self._calls.put_nowait(None)
        await self._task


def serve_threads(opening: Order) -> None:
    """Have a thread for each worker, which alone uses its lock."""
    workers = range(opening["workers"])
    with ExitStack() as stack:
        make = stack.enter_context(THREADS[opening["peer"]](opening["url"], len(workers)))
        threads = [stack.enter_context(closing(Worker())) for _ in workers]

        def every(call: Callable[..., Any], *words: Any) -> list[Any]:
            futures = [threads[number].submit(call, number, *words) for number in workers]
            return [future.result() for future in futures]

        locks: list[SyncLock] = every(partial(ready, make, opening))
        answer({})
        for order in iter(read, None):
            gc.collect()
            match order["do"]:
                case "contend":
                    times = order["opens"], order["closes"], opening["work"]
                    done = every(lambda number, *times: repeat(locks[number], *times), *times)
                    answer({"workers": done})
                case "acquire":
                    answer({"at": threads[0].submit(acquired, locks[0]).result()})
                case "release":
                    answer({"at": threads[0].submit(released, locks[0]).result()})
                case unknown:
                    raise ValueError(f"cannot {unknown}")


async def serve_tasks(opening: Order) -> None:
    """Have tasks as workers; the loop goes on while the next order is awaited."""
    workers = range(opening["workers"])
    async with AsyncExitStack() as stack:
        opened = TASKS[opening["peer"]](opening["url"], len(workers))
        make = await stack.enter_async_context(opened)
        tasks = [await stack.enter_async_context(aclosing(AsyncWorker())) for _ in workers]

        async def every(call: Callable[..., Any], *words: Any) -> list[Any]:
            return await asyncio.gather(
                *[task.submit(call, number, *words) for number, task in enumerate(tasks)]
            )

        locks: list[AsyncLock] = await every(partial(ready_async, make, opening))
        answer({})
        while (order := await asyncio.to_thread(read)) is not None:
            gc.collect()
            match order["do"]:
                case "contend":
                    times = order["opens"], order["closes"], opening["work"]
                    done = await every(
                        lambda number, *times: repeat_async(locks[number], *times), *times
                    )
                    answer({"workers": done})
                case "acquire":
                    answer({"at": await tasks[0].submit(acquired_async, locks[0])})
                case "release":
                    answer({"at": await tasks[0].submit(released_async, locks[0])})
                case unknown:
                    raise ValueError(f"cannot {unknown}")


def read() -> Order | None:
    """Return the next order; None for the last one."""
    line = sys.stdin.readline()
    order: Order = json.loads(line) if line else {"do": "close"}
    return None if order["do"] == "close" else order


def answer(words: dict[str, Any]) -> None:
    """Send an answer."""
    sys.stdout.write(json.dumps(words) + "\n")
    sys.stdout.flush()


def main() -> None:
    """Serve one session."""
    opening = read()
    if opening is None:
        return
    try:
        if opening["kind"] == "tasks":
            asyncio.run(serve_tasks(opening))
        else:
            serve_threads(opening)
    except Exception as failure:  # noqa: BLE001 - whatever a peer raises is its result
        answer({"error": f"{type(failure).__name__}: {failure}"})


if __name__ == "__main__":
    main()
