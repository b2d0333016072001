"""Pairs of acquire and release a second, with the interpreter lock (GIL) and without it.

``python -m benchmarks.gil [--rounds N] [--seconds S]``, on a Python that is built without the GIL.
Each thread has a lock of its own, all are in one process, and all threads' pairs are counted. CPU
is the client's processor time in microseconds a pair. Each figure is one process's: `PYTHON_GIL`
switches the GIL on or off there. A round measures each number of threads both ways, one directly
after the other, and the order is drawn anew.
``.ci/free-threaded --speed`` builds such a Python and runs this.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import subprocess
import sys
import threading
import time
from typing import TYPE_CHECKING, NamedTuple

from tests.support.server import RedisServer

import interlock
from benchmarks.environment import Environment

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

THREADS = (1, 2, 4, 8)
WARMUP = 0.3
"""Seconds before the counting."""
LIMIT = 60.0
"""Seconds for one process, beside what it counts."""


class Figure(NamedTuple):
    """What one process did.

    Attributes:
        rate: pairs a second, of all threads together.
        cost: microseconds of processor time for a pair, in the client.
    """

    rate: float
    cost: float


def count(url: str, threads: int, seconds: float) -> Figure:
    """Return what *threads* threads of this process do together."""
    pairs = [0] * threads
    ready, over = threading.Barrier(threads + 1), threading.Event()

    def work(number: int) -> None:
        lock = client.lock(f"lock {number}")
        with lock:  # connects, and loads the scripts
            pass
        _ = ready.wait(LIMIT)
        while not over.is_set():
            with lock:
                pairs[number] += 1

    with interlock.connect(url) as client:
        workers = [threading.Thread(target=work, args=(number,)) for number in range(threads)]
        for worker in workers:
            worker.start()
        _ = ready.wait(LIMIT)
        time.sleep(WARMUP)
        first, began, busy = sum(pairs), time.perf_counter(), time.process_time()
        time.sleep(seconds)
        made = sum(pairs) - first
        took, spent = time.perf_counter() - began, time.process_time() - busy
        over.set()
        for worker in workers:
            worker.join()
    return Figure(made / took, spent / max(made, 1) * 1e6)


def measure(url: str, threads: int, seconds: float, *, gil: bool) -> Figure:
    """Return what a process of its own, with the GIL or without, counts."""
    command = [sys.executable, "-m", "benchmarks.gil", "--count", url]
    command += ["--threads", str(threads), "--seconds", str(seconds)]
    environ = os.environ | {"PYTHON_GIL": str(int(gil))}
    done = subprocess.run(
        command, env=environ, stdout=subprocess.PIPE, text=True, check=True, timeout=seconds + LIMIT
    )
    on, rate, cost = done.stdout.split()
    if on != str(gil):
        raise RuntimeError(f"the GIL was to be {'on' if gil else 'off'} in {sys.executable}")
    return Figure(float(rate), float(cost))


def table(figures: Mapping[tuple[int, bool], Sequence[Figure]]) -> str:
    """Return *figures*, (threads, GIL) -> what came out in each round, as a table."""
    lines = [
        "| threads | pairs/s, GIL | pairs/s, no GIL | no GIL / GIL | CPU, GIL | CPU, no GIL |",
        "|---|---|---|---|---|---|",
    ]
    for threads in sorted({threads for threads, _ in figures}):
        held, free = figures[threads, True], figures[threads, False]
        ratios = [each.rate / other.rate for each, other in zip(free, held, strict=True)]
        rates = [_spread([each.rate for each in all_], ",.0f") for all_ in (held, free)]
        costs = [_spread([each.cost for each in all_], ",.0f") for all_ in (held, free)]
        cells = (*rates, _spread(ratios, ".2f"), *costs)
        lines.append(f"| {threads} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _spread(figures: Sequence[float], style: str) -> str:
    """Return the median of *figures*, with the least and the greatest."""
    middle, low, high = statistics.median(figures), min(figures), max(figures)
    return f"{middle:{style}} ({low:{style}}..{high:{style}})"


def main(words: Sequence[str] | None = None) -> int:
    """Print the table; 2 where the GIL cannot be switched off."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gil", description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=0.5, help="counted each time")
    parser.add_argument("--threads", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--count", metavar="URL", help=argparse.SUPPRESS)  # in a child
    given = parser.parse_args(words)
    switched = getattr(sys, "_is_gil_enabled", None)
    if given.count is not None:
        print(switched is None or switched(), *count(given.count, given.threads, given.seconds))
        return 0
    if switched is None or switched():
        print(f"{sys.executable} runs with the GIL", file=sys.stderr)
        return 2
    figures: dict[tuple[int, bool], list[Figure]] = {}
    here = Environment.here()
    with RedisServer() as server:
        for _ in range(given.rounds):
            for threads in random.sample(THREADS, len(THREADS)):
                for gil in random.sample((True, False), 2):
                    figure = measure(server.url(), threads, given.seconds, gil=gil)
                    figures.setdefault((threads, gil), []).append(figure)
    print(
        f"{here.started}, {here.python}, {here.processor}, {here.cpus} processors, "
        f"load {here.load} at the start, {given.rounds} rounds of {given.seconds} s, "
        f"commit {here.commit}, part in C: {'yes' if here.compiled else 'no'}\n"
    )
    print(table(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
