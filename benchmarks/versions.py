"""Compare two installations of interlock side by side: the speed before a change and after it.

    python benchmarks/versions.py /path/to/before/bin/python /path/to/after/bin/python

Each round starts a process of both for every case, in a shuffled order. The two measure in turns,
a tenth of a second each, so that what else the machine does strikes both. A ratio divides the
rates of two neighbouring slices (after / before). That of a round is the median of its slices;
printed are the median of the rounds and their spread. One server serves all.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

Turn = Callable[[int], Callable[[], None]]
AsyncTurn = Callable[[int], Callable[[], Awaitable[None]]]

SLICE = 0.1
"""Seconds for which one version is measured before the other has its turn."""

THREADS: dict[str, tuple[int, str, bool]] = {
    "1 thread": (1, "lock", False),
    "8 threads": (8, "lock", False),
    "32 threads": (32, "lock", False),
    "with, 1 thread": (1, "with", False),
    "32 threads, one lock": (32, "lock", True),
    "8 threads, one fair lock": (8, "fair", True),
    "fenced, 1 thread": (1, "fenced", False),
    "read, 8 threads, one name": (8, "read", True),
    "semaphore, 1 thread": (1, "semaphore", False),
    "multi lock of 2, 1 thread": (1, "multi", False),
    "re-entry, 1 thread": (1, "re-entry", False),
}
TASKS: dict[str, tuple[int, str, bool]] = {
    "1 task": (1, "lock", False),
    "100 tasks": (100, "lock", False),
    "1000 tasks": (1000, "lock", False),
    "100 tasks, one lock": (100, "lock", True),
    "semaphore, 100 tasks": (100, "semaphore", False),
    "write, 100 tasks": (100, "write", False),
}


def thread_turn(client: Any, kind: str, name: str) -> Callable[[], None]:
    """Return one acquisition and release of *kind* for a thread."""
    if kind == "semaphore":
        semaphore = client.semaphore(name)
        _ = semaphore.try_set_permits(100_000)
        return lambda: (semaphore.acquire(), semaphore.release())[1]
    if kind == "multi":
        lock = client.multi_lock(client.lock(name), client.lock(name + "+"))
    elif kind in ("read", "write"):
        lock = getattr(client.read_write_lock(name), kind)
    elif kind in ("fair", "fenced"):
        lock = getattr(client, kind + "_lock")(name)
    else:
        lock = client.lock(name)
    if kind == "re-entry":
        lock.acquire()
    if kind == "with":

        def turn() -> None:
            with lock:
                pass

        return turn
    return lambda: (lock.acquire(), lock.release())[1]


def name_of(index: int, *, shared: bool) -> str:
    """Return the name that the worker *index* of this process wants."""
    return f"bench:{os.getpid()}:{'one' if shared else index}"


def measure_threads(url: str, count: int, kind: str, shared: bool) -> None:
    """Print the turns per second of *count* threads, for each number of seconds that is read."""
    import interlock  # noqa: PLC0415 - of the installation that runs this

    counts, gate, done = [0] * count, threading.Barrier(count + 1), threading.Event()
    with interlock.connect(url) as client:

        def work(index: int) -> None:
            turn = thread_turn(client, kind, name_of(index, shared=shared))
            for _ in range(50 if not shared else 2):
                turn()
            while True:
                try:
                    gate.wait()
                except threading.BrokenBarrierError:
                    return  # it was the last slice
                turns = 0
                while not done.is_set():
                    turn()
                    turns += 1
                counts[index] = turns
                gate.wait()

        threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
        for thread in threads:
            thread.start()
        for line in sys.stdin:
            done.clear()
            gate.wait()
            began = time.perf_counter()
            time.sleep(float(line))
            done.set()
            took = time.perf_counter() - began
            gate.wait()
            print(sum(counts) / took, flush=True)
        gate.abort()
        for thread in threads:
            thread.join()


async def measure_tasks(url: str, count: int, kind: str, shared: bool) -> None:
    """Print the turns per second of *count* tasks, for each number of seconds that is read."""
    import interlock.asyncio  # noqa: PLC0415 - of the installation that runs this

    counts = [0] * count
    async with interlock.asyncio.connect(url) as client:

        async def work(index: int, until: float) -> None:
            name = name_of(index, shared=shared)
            lock: Any
            if kind == "semaphore":
                lock = client.semaphore(name)
                _ = await lock.try_set_permits(100_000)
            else:
                lock = client.lock(name) if kind == "lock" else client.read_write_lock(name).write
            turns = 0
            while time.perf_counter() < until:
                await lock.acquire()
                await lock.release()
                turns += 1
            counts[index] = turns

        await asyncio.gather(*[work(i, time.perf_counter() + 0.1) for i in range(count)])
        for line in sys.stdin:  # nothing else is to run meanwhile
            began = time.perf_counter()
            await asyncio.gather(*[work(i, began + float(line)) for i in range(count)])
            print(sum(counts) / (time.perf_counter() - began), flush=True)


def child(arguments: argparse.Namespace) -> None:
    """Measure one case in this process, as often as is asked for."""
    case = arguments.case
    if case in THREADS:
        measure_threads(arguments.url, *THREADS[case])
    else:
        asyncio.run(measure_tasks(arguments.url, *TASKS[case]))


class Measured:
    """A process that measures *case* with the installation of *python*."""

    def __init__(self, python: str, case: str, url: str) -> None:
        self._process = subprocess.Popen(
            [python, __file__, "--case", case, "--url", url],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def rate(self, seconds: float) -> float:
        """Return the rate of the next *seconds*."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(seconds, file=self._process.stdin, flush=True)
        return float(self._process.stdout.readline())

    def close(self) -> None:
        """End the process."""
        _ = self._process.communicate()


def one_round(pythons: list[str], case: str, url: str, slices: int) -> tuple[float, float]:
    """Return the ratio of *case* and the rate after the change, medians of the *slices*."""
    with contextlib.ExitStack() as stack:
        pair = [stack.enter_context(contextlib.closing(Measured(p, case, url))) for p in pythons]
        for each in pair:
            each.rate(SLICE)  # the first one after the start does not count
        ratios: list[float] = []
        rates: list[float] = []
        for number in range(slices):
            found = {which: pair[which].rate(SLICE) for which in ((0, 1), (1, 0))[number % 2]}
            ratios.append(found[1] / found[0])
            rates.append(found[1])
    return statistics.median(ratios), statistics.median(rates)


def compare(arguments: argparse.Namespace) -> None:
    """Print the ratios of all cases."""
    chosen = [case for case in (*THREADS, *TASKS) if arguments.only in case]
    ratios: dict[str, list[float]] = {case: [] for case in chosen}
    rates: dict[str, list[float]] = {case: [] for case in chosen}
    shuffler = random.Random(1)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "redis.sock"
        server = subprocess.Popen(
            ["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--dir", folder],
            stdout=subprocess.DEVNULL,
        )
        try:
            while not path.exists():
                time.sleep(0.01)
            url = f"unix://{path}"
            for _ in range(arguments.rounds):
                shuffler.shuffle(chosen)
                for case in chosen:
                    pythons = [arguments.before, arguments.after]
                    ratio, rate = one_round(pythons, case, url, arguments.slices)
                    ratios[case].append(ratio)
                    rates[case].append(rate)
        finally:
            server.terminate()
            _ = server.wait()
    print(f"{'case':28} {'after/s':>9} {'ratio':>6} {'low':>6} {'high':>6}")
    for case in (*THREADS, *TASKS):
        if case in ratios:
            each = ratios[case]
            print(
                f"{case:28} {statistics.median(rates[case]):9.0f} "
                f"{statistics.median(each):6.3f} {min(each):6.3f} {max(each):6.3f}"
            )


def main() -> None:
    """Compare, or be one measurement of a comparison."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("before", nargs="?", help="the Python of the installation before")
    parser.add_argument("after", nargs="?", default=sys.executable, help="and of that after")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--slices", type=int, default=8, help="of each version in a round")
    parser.add_argument("--only", default="", help="cases that contain this word")
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.case:
        child(arguments)
    elif arguments.before is None:
        parser.error("name the Python of the installation before")
    else:
        compare(arguments)


if __name__ == "__main__":
    main()
