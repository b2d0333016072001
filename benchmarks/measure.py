"""One measurement: many workers on distinct locks, started together, counted in one window.

Every worker first makes one pair, which opens its connection and loads the scripts. When all have
done so, they repeat acquire and release until the window has closed. First there is a warm-up.
Then come the seconds that count: a pair counts if it *completes* in them. Every pair is completed,
and their total is kept, because the audit compares it with what the server has counted.
"""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from benchmarks.peer import SyncPeer

if TYPE_CHECKING:
    from collections.abc import Coroutine, Iterable

    from benchmarks.peer import AsyncLock, AsyncPeer, AsyncSession, SyncLock, SyncSession

# Seconds beyond the window after which a worker counts as stuck; generous, for busy machines.
GRACE = 15.0


@dataclass(frozen=True, slots=True)
class Case:
    """How many workers of which kind ("threads" or "tasks").

    Attributes:
        workers: In each process.
        processes: How many there are, besides the one that measures if it is more than one.
        work: Seconds for which a lock is held.
        label: What is printed instead of the numbers, where they are not the point.
        away: Seconds that a round trip to the server takes longer than here.
    """

    kind: str
    workers: int
    processes: int = 1
    work: float = 0.0
    label: str = ""
    away: float = 0.0

    def __str__(self) -> str:
        if self.label:
            return self.label
        kind = self.kind if self.workers != 1 else self.kind.removesuffix("s")
        processes = f"{self.processes} x " if self.processes > 1 else ""
        work = f", {self.work * 1000:g} ms" if self.work else ""
        away = f", {self.away * 1000:g} ms away" if self.away else ""
        return f"{processes}{self.workers} {kind}{work}{away}"


@dataclass(frozen=True, slots=True)
class Pace:
    """How long to warm up and to count, in seconds."""

    warmup: float
    seconds: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What one measurement counted.

    Attributes:
        rate: Pairs completed inside the window, per second.
        total: Pairs completed at all.
    """

    rate: float
    total: int

    @classmethod
    def of(cls, rate: float, total: int) -> Sample:
        """Return the sample, unless its window was too short for a rate.

        Raises:
            NothingCountedError: No pair was completed inside the window.
        """
        if not rate:
            raise NothingCountedError(f"none of {total} pairs was completed while it was counted")
        return cls(rate, total)


class NothingCountedError(Exception):
    """The window had closed before anything happened that counts; a longer one may do."""


class StuckError(Exception):
    """Workers did not end with the window."""


class RefusedError(Exception):
    """A peer did not get a lock that nobody else wants."""

    def __init__(self) -> None:
        super().__init__("acquire did not get a free lock")


class _Window:
    """The clock readings between which pairs count; set when all workers are ready."""

    def __init__(self, pace: Pace) -> None:
        self._pace = pace
        self.opens = self.closes = 0.0
        self.results: list[tuple[int, int]] = []

    def start(self) -> None:
        self.opens = perf_counter() + self._pace.warmup
        self.closes = self.opens + self._pace.seconds

    def sample(self) -> Sample:
        counted = sum(counted for counted, _ in self.results)
        total = sum(total for _, total in self.results)
        return Sample.of(counted / self._pace.seconds, total)


def processor_time(pid: int) -> float:
    """Return the seconds of processor time that process *pid* has used; Linux tells it."""
    # What follows the name, which may contain anything but a closing bracket behind it.
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    user, system = fields[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def measure(peer: SyncPeer | AsyncPeer, workers: int, url: str, pace: Pace) -> Sample:
    """Measure *peer* on the server at *url*; what the peer raises is raised."""
    gc.collect()  # the garbage of the former contender is not this one's
    if isinstance(peer, SyncPeer):
        with peer.open(url, workers) as session:
            return _measure_threads(session, peer.name, workers, pace)
    with asyncio.Runner(loop_factory=peer.loop) as runner:
        return runner.run(_measure_tasks(peer, workers, url, pace))


def _measure_threads(session: SyncSession, name: str, workers: int, pace: Pace) -> Sample:
    window = _Window(pace)
    barrier = threading.Barrier(workers, action=window.start)
    failures: list[Exception] = []

    def work(index: int) -> None:
        try:
            lock = session.lock(f"{name}:{index}")
            pair(lock)
            barrier.wait()
            _repeat(lock, window, failures)
        except threading.BrokenBarrierError:
            return  # another worker failed, and has said why
        except Exception as failure:  # noqa: BLE001 - whatever a peer raises is its result
            failures.append(failure)
            barrier.abort()

    # Daemons: a peer that hangs must not keep the benchmark from ending.
    threads = [threading.Thread(target=work, args=(i,), daemon=True) for i in range(workers)]
    for thread in threads:
        thread.start()
    deadline = perf_counter() + pace.warmup + pace.seconds + GRACE
    for thread in threads:
        thread.join(max(0.0, deadline - perf_counter()))
    if failures:
        raise failures[0]
    stuck = sum(thread.is_alive() for thread in threads)
    if stuck:
        raise StuckError(f"{stuck} of {workers} threads are stuck")
    return window.sample()


def pair(lock: SyncLock) -> None:
    """Take a free lock and give it back."""
    if not lock.acquire():
        raise RefusedError
    lock.release()


def _repeat(lock: SyncLock, window: _Window, failures: list[Exception]) -> None:
    acquire, release, clock = lock.acquire, lock.release, perf_counter
    opens, closes = window.opens, window.closes
    counted, total = 0, 1
    while not failures:
        if not acquire():
            raise RefusedError
        release()
        total += 1
        now = clock()
        if now >= closes:
            break
        if now >= opens:
            counted += 1
    window.results.append((counted, total))


async def _measure_tasks(peer: AsyncPeer, workers: int, url: str, pace: Pace) -> Sample:
    limit = asyncio.timeout(pace.warmup + pace.seconds + GRACE)
    try:
        async with limit, peer.open(url, workers) as session:
            return await _gather(session, peer.name, workers, pace)
    except TimeoutError as late:
        if limit.expired():
            raise StuckError("the tasks are stuck") from late
        raise


async def _gather(session: AsyncSession, name: str, workers: int, pace: Pace) -> Sample:
    window = _Window(pace)
    locks = [session.lock(f"{name}:{index}") for index in range(workers)]
    await together(pair_async(lock) for lock in locks)
    window.start()  # no task runs before all of them exist: they start together
    await together(_repeat_async(lock, window) for lock in locks)
    return window.sample()


async def together(works: Iterable[Coroutine[Any, Any, None]]) -> None:
    """Run *works* as tasks; the first that fails ends all, and its error is raised."""
    try:
        async with asyncio.TaskGroup() as group:
            for work in works:
                group.create_task(work)
    except ExceptionGroup as failures:
        # The first worker's error speaks for all; the group cancelled the others.
        raise failures.exceptions[0] from None


async def pair_async(lock: AsyncLock) -> None:
    """Take a free lock and give it back."""
    if not await lock.acquire():
        raise RefusedError
    await lock.release()


async def _repeat_async(lock: AsyncLock, window: _Window) -> None:
    acquire, release, clock = lock.acquire, lock.release, perf_counter
    opens, closes = window.opens, window.closes
    counted, total = 0, 1
    while True:
        if not await acquire():
            raise RefusedError
        await release()
        total += 1
        now = clock()
        if now >= closes:
            break
        if now >= opens:
            counted += 1
    window.results.append((counted, total))
