"""`python -m benchmarks recipes`: its options, its works and its table."""

from __future__ import annotations

import itertools
import json
import statistics
import subprocess
import sys
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Self

from tests.support.server import RedisServer

from benchmarks.recipes.party import ROUNDS, client_of
from benchmarks.servers import Others

if TYPE_CHECKING:
    import argparse

QUESTION = (
    "How soon do the waiters of an event, the parties of a barrier and the next leader go on, "
    "beside kazoo's recipes on ZooKeeper and etcd's election?"
)
LIBRARIES = ("interlock", "kazoo", "etcd")
"""etcd has elections alone."""
SERVERS = {"kazoo": "zookeeper", "etcd": "etcd"}
IDLE = 10.0
"""Seconds in which the commands of idle waiters are counted."""
TERMS = 20
"""How often one leader follows another."""


def configure(command: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = command.add_argument
    add("--libraries", type=lambda text: text.split(","), default=LIBRARIES, metavar="NAME,...")
    add("--processes", type=int, default=10, help="default: 10")
    add("--waiters", type=int, default=1000, help="of the event, in all processes; default: 1000")
    add("--idle", type=float, default=IDLE, help=f"seconds of counting; default: {IDLE:g}")
    add("--json", action="store_true", help="print JSON")


def run(arguments: argparse.Namespace) -> int:
    """Measure each library in turn, and print what came out."""
    figures = measure(
        arguments.libraries, arguments.processes, arguments.waiters, idle=arguments.idle
    )
    if arguments.json:
        print(json.dumps(figures, indent=2))
        return 0
    names = sorted({name for each in figures.values() for name in each})
    print("| figure | " + " | ".join(figures) + " |")
    print("|---|" + "---|" * len(figures))
    for name in names:
        cells = [f"{each[name]:.3f}" if name in each else "" for each in figures.values()]
        print(f"| {name} | " + " | ".join(cells) + " |")
    return 0


def measure(
    libraries: list[str], processes: int, waiters: int, *, idle: float = IDLE
) -> dict[str, dict[str, float]]:
    """Return the figures of each library, by their names; times are in seconds.

    Raises:
        FileNotFoundError: ZooKeeper or etcd is asked for and not installed.
    """
    figures: dict[str, dict[str, float]] = {}
    with ExitStack() as stack:
        others = stack.enter_context(Others())
        server = stack.enter_context(RedisServer())
        for library in libraries:
            ours = library == "interlock"
            url = server.url() if ours else others.url(SERVERS[library])
            found = figures[library] = _election(library, url)
            if library != "etcd":
                counted = server if ours else None
                found |= _event(library, url, processes, waiters, idle, counted)
                found |= _barrier(library, url, processes)
    return figures


class _Parties:
    """The processes of one work."""

    def __init__(self, library: str, url: str, work: str, number: int, total: int) -> None:
        words = [sys.executable, "-m", "benchmarks.recipes.party", library, url, work]
        self._processes = [
            subprocess.Popen(
                [*words, str(number), str(total)],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                text=True,
            )
            for _ in range(total)
        ]

    def __enter__(self) -> Self:
        for process in self._processes:
            assert process.stdout is not None
            if process.stdout.readline() != "ready\n":
                raise ChildProcessError("a party ended before it was ready")
        return self

    def __exit__(self, *_error: object) -> None:
        for process in self._processes:
            process.kill()
            _ = process.communicate()

    def go(self) -> None:
        """Tell each to begin."""
        for process in self._processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()

    def figures(self) -> list[list[float]]:
        """Return what each has measured."""
        told: list[list[float]] = []
        for process in self._processes:
            assert process.stdout is not None
            told.append(json.loads(process.stdout.readline()))
        return told


def _event(
    library: str, url: str, processes: int, waiters: int, idle: float, server: RedisServer | None
) -> dict[str, float]:
    with ExitStack() as stack:
        client = client_of(library, url, stack)
        if library == "kazoo":
            client.Barrier("/event").create()
        parties = stack.enter_context(
            _Parties(library, url, "event", waiters // processes, processes)
        )
        figures = {}
        if server is not None:
            figures["event: commands a second of all idle waiters"] = _commands(server, idle)
        began = time.monotonic()
        if library == "interlock":
            client.event("recipe").set()
        else:
            client.Barrier("/event").remove()
        woken = sorted(at - began for times in parties.figures() for at in times)
    assert len(woken) == waiters // processes * processes
    figures["event: median waiter goes on after"] = statistics.median(woken)
    figures["event: last waiter goes on after"] = woken[-1]
    return figures


def _commands(server: RedisServer, seconds: float) -> float:
    """Return how many scripts clients send a second."""

    def scripts() -> int:
        with server.client() as connection:
            stats: dict[str, Any] = connection.info("commandstats")
        return int(stats.get("cmdstat_evalsha", {}).get("calls", 0))

    before, began = scripts(), time.monotonic()
    time.sleep(seconds)
    return (scripts() - before) / (time.monotonic() - began)


def _barrier(library: str, url: str, processes: int) -> dict[str, float]:
    with _Parties(library, url, "barrier", 1, processes) as parties:
        parties.go()
        passed = parties.figures()
    ends = [max(times[number] for times in passed) for number in range(ROUNDS + 1)]
    rounds = [after - before for before, after in itertools.pairwise(ends)]
    return {f"barrier: a round of {processes} parties": statistics.median(rounds)}


def _election(library: str, url: str) -> dict[str, float]:
    """Measure from a resignation to the moment in which the next candidate leads."""
    gaps: list[float] = []
    resigned = [0.0]
    turns = [threading.Semaphore(0), threading.Semaphore(0)]
    ready = threading.Barrier(2)

    def campaign(number: int) -> None:
        with ExitStack() as stack:
            client = client_of(library, url, stack)
            ready.wait(30)

            def lead(*_term: object) -> None:
                if resigned[0]:
                    gaps.append(time.monotonic() - resigned[0])
                turns[number].release()  # the other one may stand for the next term
                time.sleep(0.2)
                resigned[0] = time.monotonic()

            for _ in range(TERMS // 2):
                if library == "interlock":
                    client.election("recipe").run(lead)
                elif library == "etcd":
                    client.run("recipe", lead)
                else:
                    client.Election("/election").run(lead)
                if not turns[1 - number].acquire(timeout=30):
                    raise TimeoutError("the other candidate did not lead")

    threads = [threading.Thread(target=campaign, args=(number,)) for number in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return {"election: the next one leads after": statistics.median(gaps)}
