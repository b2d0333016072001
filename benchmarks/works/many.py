"""Many holds that are renewed, and many tasks that wait: their cost for client and server."""

from __future__ import annotations

import contextlib
import json
import random
import subprocess
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.servers import wait_until

from benchmarks.compare import Contender
from benchmarks.measure import GRACE, Case, processor_time
from benchmarks.peers import interlock
from benchmarks.report import Column, Goal
from benchmarks.work import Work

if TYPE_CHECKING:
    from collections.abc import Generator

    import redis

    from benchmarks.measure import Pace
    from benchmarks.work import Bed

_ROOT = Path(__file__).parents[2]
_LEASE = 30.0  # seconds, interlock's default
_SHORT_LEASE = 4.5  # if a period of the default does not fit
_SAMPLE = 500  # holds looked at each time
_LOOK = 0.05  # seconds between two looks
_NAMES = 10  # waiters for each name
_SEND = ("evalsha",)

HOLDS = (Case("holds", 10_000), Case("holds", 100_000))
WAITERS = (Case("waiting tasks", 10_000),)


class Probe:
    """A program of benchmarks.probes; each `step` is one line from it."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def processor_time(self) -> float:
        """Return the seconds of processor time that it has used, in all its threads."""
        return processor_time(self._process.pid)

    def step(self) -> dict[str, Any]:
        """Wait for the next line; a probe that ends without one has told why on standard error."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise RuntimeError(f"the probe has ended: {self._process.wait()}")
        facts: dict[str, Any] = json.loads(line)
        return facts

    def go_on(self) -> None:
        """Tell the program to do what is left."""
        assert self._process.stdin is not None
        self._process.stdin.write("\n")
        self._process.stdin.flush()


@contextlib.contextmanager
def probe(*words: object) -> Generator[Probe]:
    """Start one, and end it, whatever happens."""
    command = [sys.executable, "-m", "benchmarks.probes", *map(str, words)]
    with subprocess.Popen(
        command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Probe(process)
        finally:
            process.kill()


def _measure_holds(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
    count = contender.case.workers
    lease = _LEASE if pace.seconds >= _LEASE / 3 else _SHORT_LEASE
    period = lease / 3
    with (
        bed.servers[0].client() as client,
        probe("holds", bed.url, count, lease) as program,
    ):
        facts = program.step()
        keys = [f"hold:{number}" for number in random.sample(range(count), min(count, _SAMPLE))]
        # Count whole periods, after a first one with all locks taken. In that one the rounds of
        # renewals find their places.
        time.sleep(period)
        periods = max(1, round(pace.seconds / period))
        before, least = bed.auditor.commands(_SEND), lease
        used = program.processor_time()
        ends = time.monotonic() + periods * period
        while time.monotonic() < ends:
            least = min(least, _least_left(client, keys))
            time.sleep(_LOOK)
        trips = bed.auditor.commands(_SEND) - before
        used = program.processor_time() - used
        program.go_on()
        facts |= program.step()
    if facts["lost"]:
        raise RuntimeError(f"{facts['lost']:.0f} of {count} holds were lost")
    return {
        "trips": trips / periods / (count / 100),
        "bytes_hold": facts["bytes_hold"],
        "bytes_lock": facts["bytes_lock"],
        "late": max(0.0, lease - period - least),
        "core": used / (periods * period),
        "late_of_lease": max(0.0, lease - period - least) / lease,
    }


def _least_left(client: redis.Redis, keys: list[str]) -> float:
    """Return the seconds that the first of *keys* to end has left."""
    pipeline = client.pipeline(transaction=False)
    for key in keys:
        pipeline.pttl(key)
    left: float = min(pipeline.execute()) / 1000
    if left < 0:
        raise RuntimeError("a hold has ended on the server")
    return left


def _measure_waiters(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
    count, names = contender.case.workers, contender.case.workers // _NAMES
    with bed.servers[0].client() as client:
        # A Redisson-like holder in the server's memory alone: a hash with one field.
        pipeline = client.pipeline(transaction=False)
        for number in range(names):
            pipeline.hset(f"wanted:{number}", "another:1", 1)
            pipeline.pexpire(f"wanted:{number}", 600_000)
        pipeline.execute()
        with probe("waiters", bed.url, count, names) as program:
            facts = program.step()
            channels = [f"redisson_lock__channel:{{wanted:{number}}}" for number in range(names)]
            wait_until(
                lambda: all(hearers for _, hearers in client.pubsub_numsub(*channels)),
                GRACE,
                "every name is listened to",
            )
            lines = client.client_list()
            subscribers = sum(int(line["sub"]) > 0 for line in lines)
            before = bed.auditor.commands(_SEND)
            time.sleep(pace.seconds)
            idle = bed.auditor.commands(_SEND) - before
            for number, channel in enumerate(channels):
                pipeline.delete(f"wanted:{number}")
                pipeline.publish(channel, "0")
            pipeline.execute()
            program.go_on()
            facts |= program.step()
    return {
        "bytes_waiter": facts["bytes_waiter"],
        "bytes_task": facts["bytes_task"],
        "subscribers": float(subscribers),
        "connections": float(len(lines) - 2),  # without those of the audit and of this program
        "idle": idle / pace.seconds / names,
        "drained": facts["drained"],
    }


WORK_HOLDS = Work(
    name="holds",
    question="What do many holds cost that are kept and renewed?",
    columns=(
        Column("trips", "round trips for 100 holds and period", ".2f"),
        Column("bytes_hold", "bytes a hold"),
        Column("bytes_lock", "bytes a lock object"),
        Column("late", "latest renewal, ms", ".0f", 1000),
        Column("core", "% of a core", ".1f", 100),
    ),
    contenders=tuple(Contender(case, interlock.ASYNC) for case in HOLDS),
    measure=_measure_holds,
    references=(),
    goals=(
        *(Goal(str(case), "trips", most=1.01) for case in HOLDS),
        *(Goal(str(case), "bytes_hold", most=1024) for case in HOLDS),
        *(Goal(str(case), "late_of_lease", most=0.1) for case in HOLDS),
        *(Goal(str(case), "core", most=0.2) for case in HOLDS),
    ),
    seconds=20.0,
    rounds=2,
    brief=(Contender(Case("holds", 1000), interlock.ASYNC),),
    notes=(
        f"lease {_LEASE:g} s, renewed every third of it; late: seen from outside, on the server",
        "bytes: allocated by the interpreter, as tracemalloc counts them",
    ),
)

WORK_WAITERS = Work(
    name="waiters",
    question="What do many waiting tasks cost, ten for each name?",
    columns=(
        Column("bytes_waiter", "bytes a waiter"),
        Column("bytes_task", "of them an idle task"),
        Column("subscribers", "subscribers"),
        Column("connections", "connections"),
        Column("idle", "commands a second and name", ".2f"),
        Column("drained", "until all had a turn, s", ".1f"),
    ),
    contenders=tuple(Contender(case, interlock.ASYNC) for case in WAITERS),
    measure=_measure_waiters,
    references=(),
    goals=(
        *(Goal(str(case), "subscribers", most=1) for case in WAITERS),
        *(Goal(str(case), "bytes_waiter", most=4096) for case in WAITERS),
        *(Goal(str(case), "idle", most=1.0) for case in WAITERS),
    ),
    seconds=10.0,
    rounds=3,
    brief=(Contender(Case("waiting tasks", 500), interlock.ASYNC),),
    notes=(
        "bytes: allocated by the interpreter, as tracemalloc counts them; with the task itself",
    ),
)
