"""Measure what observing costs an uncontended pair: `python -m tests.monitoring.overhead`.

Three clients take turns: one with everything off, one with the defaults, and one with an
OpenTelemetry observer. Each turn is a burst of pairs, and each round has a turn of all three. So
whatever else the machine does, it does to all. ``--instructions`` counts instructions instead, by
callgrind, in one process for each. It exits with 1 if a goal is missed.

It needs the extra ``monitoring``.
"""

from __future__ import annotations

import argparse
import random
import re
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import interlock

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from interlock import Client

OFF, DEFAULT, OTEL = "everything off", "defaults", "OpenTelemetry"
GOALS: Mapping[str, float] = {DEFAULT: 1.01, OTEL: 1.15}
BURST = 100
"""Pairs of one turn."""
ROUNDS = 400
COUNTED = 300
"""Pairs whose instructions are counted."""


def connected(url: str, how: str) -> Client:
    """Return a client that is observed as *how* says."""
    if how == OFF:
        return interlock.connect(url, card=False, log=False)
    client = interlock.connect(url)
    if how == OTEL:
        # Callgrind counts imports too, slowly: only where they are needed.
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import InMemoryMetricReader
        from opentelemetry.sdk.trace import TracerProvider

        from interlock.otel import OpenTelemetry

        _ = client.observe(
            OpenTelemetry(
                meter_provider=MeterProvider([InMemoryMetricReader()]),
                tracer_provider=TracerProvider(),
            )
        )
    return client


def pairs(client: Client, count: int) -> float:
    """Acquire and release so many times; return the seconds."""
    lock = client.lock("orders:42")
    started = time.perf_counter()
    for _ in range(count):
        lock.acquire()
        lock.release()
    return time.perf_counter() - started


def timed(rounds: int) -> dict[str, list[float]]:
    """Return the seconds of each burst."""
    from tests.support.servers import RedisServer

    found: dict[str, list[float]] = {how: [] for how in (OFF, *GOALS)}
    with RedisServer() as server, ExitStack() as stack:
        clients = {how: stack.enter_context(connected(server.url(), how)) for how in found}
        for client in clients.values():
            _ = pairs(client, BURST)
        for _ in range(rounds):
            for how in random.sample(list(found), len(found)):
                found[how].append(pairs(clients[how], BURST))
    return found


def instructions(url: str, how: str, count: int) -> int:
    """Return the instructions of a process that does so many pairs."""
    ran = subprocess.run(
        [
            *("valgrind", "--tool=callgrind", "--callgrind-out-file=/dev/null"),
            *(sys.executable, "-m", "tests.monitoring.overhead", "--work", how),
            *("--url", url, "--pairs", str(count)),
        ],
        capture_output=True,
        text=True,
        check=True,
        env={"PYTHONHASHSEED": "0"},
    )
    found = re.search(r"Collected : (\d+)", ran.stderr)
    assert found is not None, ran.stderr
    return int(found[1])


def counted() -> dict[str, float]:
    """Return the instructions of one pair."""
    from tests.support.servers import RedisServer

    with RedisServer() as server:
        # The first process compiles modules that the others find compiled.
        _ = [instructions(server.url(), how, 1) for how in (OFF, *GOALS)]
        return {
            how: (
                instructions(server.url(), how, 2 * COUNTED)
                - instructions(server.url(), how, COUNTED)
            )
            / COUNTED
            for how in (OFF, *GOALS)
        }


def main(words: Sequence[str] | None = None) -> int:
    """Measure, print a table, and return 1 if a goal is missed."""
    parser = argparse.ArgumentParser(prog="python -m tests.monitoring.overhead")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--instructions", action="store_true")
    parser.add_argument("--work", help=argparse.SUPPRESS)
    parser.add_argument("--url", help=argparse.SUPPRESS)
    parser.add_argument("--pairs", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(words)
    if given.work:
        with connected(given.url, given.work) as client:
            _ = pairs(client, given.pairs)
        return 0
    if given.instructions:
        figures = counted()
        ratios = {how: figures[how] / figures[OFF] for how in GOALS}
        unit, scale = "instructions", 1.0
    else:
        bursts = timed(given.rounds)
        figures = {how: statistics.median(each) / BURST for how, each in bursts.items()}
        # Each burst beside those of its round.
        ratios = {
            how: statistics.median(a / b for a, b in zip(bursts[how], bursts[OFF], strict=True))
            for how in GOALS
        }
        unit, scale = "µs", 1e6
    print(f"{unit + ' a pair':20} {'':>10} {'ratio':>8} {'goal':>8}")
    for how, figure in figures.items():
        print(f"{how:20} {figure * scale:10.1f}", end=" ")
        print(f"{ratios[how]:8.3f} {GOALS[how]:8.2f}" if how in GOALS else "")
    return int(any(ratios[how] > goal for how, goal in GOALS.items()))


if __name__ == "__main__":
    sys.exit(main())
