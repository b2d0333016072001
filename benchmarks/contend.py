"""Many workers on one name, in this process: everybody repeats acquire, work, release.

Every worker first makes a pair under a name of its own, which opens its connection. Then `contend`
waits for a moment that all processes share. It ends when the window has closed and every worker has
given back what it still got.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING

from benchmarks.measure import GRACE, RefusedError, StuckError, pair, pair_async, together
from benchmarks.turns import Turn

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.peer import AsyncLock, AsyncSession, SyncLock, SyncSession

clock = time.monotonic


class Threads:
    """Threads that stand ready to contend; they are daemons, for a peer may hang."""

    def __init__(self, session: SyncSession, name: str, workers: int, work: float) -> None:
        self._work = work
        self._go = threading.Event()
        self._opens = self._closes = 0.0
        self._failures: list[Exception] = []
        self._turns: list[list[Turn]] = []
        self._ready = threading.Barrier(workers + 1)
        self._threads = [
            threading.Thread(target=self._main, args=(session, name), daemon=True)
            for _ in range(workers)
        ]

    def prepare(self) -> None:
        """Have every thread make its first pair, on a name of its own."""
        for thread in self._threads:
            thread.start()
        try:
            self._ready.wait(GRACE)
        except threading.BrokenBarrierError:
            raise self._failure("get ready") from None

    def contend(self, opens: float, closes: float) -> list[list[Turn]]:
        """Contend from *opens* to *closes*; return the turns of each worker."""
        self._opens, self._closes = opens, closes
        self._go.set()
        deadline = closes + GRACE
        for thread in self._threads:
            thread.join(max(0.0, deadline - clock()))
        if self._failures or any(thread.is_alive() for thread in self._threads):
            raise self._failure("end")
        return self._turns

    def _failure(self, what: str) -> Exception:
        if self._failures:
            return self._failures[0]
        stuck = sum(thread.is_alive() for thread in self._threads)
        return StuckError(f"{stuck} of {len(self._threads)} threads did not {what}")

    def _main(self, session: SyncSession, name: str) -> None:
        try:
            pair(session.lock(f"{name}:{threading.get_ident()}"))
            lock = session.lock(name)
            self._ready.wait(GRACE)
            self._go.wait()
            self._repeat(lock)
        except threading.BrokenBarrierError:
            return  # another worker failed, and has said why
        except Exception as failure:  # noqa: BLE001 - whatever a peer raises is its result
            self._failures.append(failure)
            self._ready.abort()

    def _repeat(self, lock: SyncLock) -> None:
        turns: list[Turn] = []
        self._turns.append(turns)
        acquire, release, work, closes = lock.acquire, lock.release, self._work, self._closes
        time.sleep(max(0.0, self._opens - clock()))
        while (asked := clock()) < closes and not self._failures:
            if not acquire():
                raise RefusedError
            got = clock()
            if work:
                time.sleep(work)
            turns.append(Turn(asked, got, clock()))
            release()


class Tasks:
    """The same for the tasks of one loop."""

    def __init__(self, session: AsyncSession, name: str, workers: int, work: float) -> None:
        self._session = session
        self._name = name
        self._workers = workers
        self._work = work

    async def prepare(self) -> None:
        """Make a first pair for each task, on a name of its own."""
        async with asyncio.timeout(GRACE):
            await together(self._first(number) for number in range(self._workers))

    async def contend(self, opens: float, closes: float) -> list[list[Turn]]:
        """Contend from *opens* to *closes*; return the turns of each worker."""
        workers: list[list[Turn]] = [[] for _ in range(self._workers)]
        await asyncio.sleep(max(0.0, opens - clock()))
        limit = asyncio.timeout(max(0.0, closes - clock()) + GRACE)
        try:
            async with limit:
                await together(self._repeat(turns, closes) for turns in workers)
        except TimeoutError as late:
            if limit.expired():
                raise StuckError("the tasks did not end") from late
            raise
        return workers

    async def _first(self, number: int) -> None:
        await pair_async(self._session.lock(f"{self._name}:{number}"))

    async def _repeat(self, turns: list[Turn], closes: float) -> None:
        lock: AsyncLock = self._session.lock(self._name)
        acquire, release, work = lock.acquire, lock.release, self._work
        while (asked := clock()) < closes:
            if not await acquire():
                raise RefusedError
            got = clock()
            if work:
                await asyncio.sleep(work)
            turns.append(Turn(asked, got, clock()))
            await release()


def as_rows(workers: Sequence[Sequence[Turn]]) -> list[list[list[float]]]:
    """Make *workers* plain data, to be sent as JSON."""
    return [[list(turn) for turn in turns] for turns in workers]


def from_rows(rows: Sequence[Sequence[Sequence[float]]]) -> list[list[Turn]]:
    """Read what `as_rows` has made."""
    return [[Turn(*row) for row in turns] for turns in rows]
