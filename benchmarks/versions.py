"""Compare two installations of interlock side by side: the speed before a change and after it.

    python benchmarks/versions.py /path/to/before/bin/python /path/to/after/bin/python

Each round measures every case with both, one directly after the other, in a shuffled order. A ratio
divides the rates of one round (after / before); printed are the median of these ratios and their
spread. Each measurement is a process of its own, against one server for all.
"""

from __future__ import annotations

import argparse
import asyncio
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


def measure_threads(url: str, count: int, kind: str, shared: bool, seconds: float) -> float:
    """Return turns per second of *count* threads."""
    import interlock  # noqa: PLC0415 - of the installation that runs this

    counts, start, done = [0] * count, threading.Barrier(count + 1), threading.Event()
    with interlock.connect(url) as client:

        def work(index: int) -> None:
            turn = thread_turn(
                client, kind, f"bench:{kind}:one" if shared else f"bench:{kind}:{index}"
            )
            for _ in range(50 if not shared else 2):
                turn()
            start.wait()
            turns = 0
            while not done.is_set():
                turn()
                turns += 1
            counts[index] = turns

        threads = [threading.Thread(target=work, args=(index,)) for index in range(count)]
        for thread in threads:
            thread.start()
        start.wait()
        began = time.perf_counter()
        time.sleep(seconds)
        done.set()
        took = time.perf_counter() - began
        for thread in threads:
            thread.join()
    return sum(counts) / took


async def measure_tasks(url: str, count: int, kind: str, shared: bool, seconds: float) -> float:
    """Return turns per second of *count* tasks."""
    import interlock.asyncio  # noqa: PLC0415 - of the installation that runs this

    counts = [0] * count
    async with interlock.asyncio.connect(url) as client:

        async def work(index: int, until: float) -> None:
            name = f"bench:{kind}:one" if shared else f"bench:{kind}:{index}"
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

        await asyncio.gather(*[work(i, time.perf_counter() + 0.3) for i in range(count)])
        began = time.perf_counter()
        await asyncio.gather(*[work(i, began + seconds) for i in range(count)])
        took = time.perf_counter() - began
    return sum(counts) / took


def child(arguments: argparse.Namespace) -> None:
    """Measure one case in this process, and print the rate."""
    case, seconds = arguments.case, arguments.seconds
    if case in THREADS:
        print(measure_threads(arguments.url, *THREADS[case], seconds))
    else:
        print(asyncio.run(measure_tasks(arguments.url, *TASKS[case], seconds)))


def rate(python: str, case: str, url: str, seconds: float) -> float:
    """Return the rate of *case* with the installation of *python*."""
    words = [python, __file__, "--case", case, "--url", url, "--seconds", str(seconds)]
    return float(subprocess.run(words, check=True, capture_output=True, text=True).stdout)


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
            for number in range(arguments.rounds):
                shuffler.shuffle(chosen)
                for case in chosen:
                    pair = [arguments.before, arguments.after]
                    order = (0, 1) if (number + len(case)) % 2 else (1, 0)
                    found = [0.0, 0.0]
                    for which in order:
                        found[which] = rate(pair[which], case, url, arguments.seconds)
                    ratios[case].append(found[1] / found[0])
                    rates[case].append(found[1])
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
    parser.add_argument("--seconds", type=float, default=1.0, help="of each measurement")
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
