"""Pairs of acquire and release per second when nobody competes, beside the bare limit."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks import peers
from benchmarks.fleet import fleet
from benchmarks.measure import GRACE, Case, Pace, Sample, measure
from benchmarks.peer import ProgramPeer
from benchmarks.report import Column, Goal
from benchmarks.work import Work, line_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.compare import Contender
    from benchmarks.work import Bed

THREADS = (1, 8, 32)
TASKS = (1, 100, 1000)
_BRIEFLY = 0.1  # seconds counted, and forgotten, behind a warm-up


def cases(threads: Sequence[int] = THREADS, tasks: Sequence[int] = TASKS) -> list[Case]:
    """Return a case for each number of threads and of tasks."""
    return [Case("threads", n) for n in threads] + [Case("tasks", n) for n in tasks]


def measure_pairs(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
    """Count the pairs of one contender, and have the server asked whether it was so."""
    peer, workers = contender.peer, contender.case.workers
    before = bed.auditor.processor_time()
    if isinstance(peer, ProgramPeer):
        sample, cpu, warm = _measure_program(peer, workers, bed.url, pace)
    else:
        began = time.process_time()
        sample = measure(peer, workers, bed.url_of(peer), pace)
        cpu, warm = time.process_time() - began, 0
    server = bed.auditor.processor_time() - before
    if peer.server == "redis":
        bed.auditor.check(sample.total + warm, workers, peer.calls, peer.leaves)
    pairs = sample.total
    return {"rate": sample.rate, "client": cpu / pairs, "server": server / (pairs + warm)}


def _measure_program(
    peer: ProgramPeer, workers: int, url: str, pace: Pace
) -> tuple[Sample, float, int]:
    """Return the sample, the seconds of processor time it took, and the pairs of the warm-up."""
    with fleet(peer, url, agents=1, workers=workers) as (agent,):
        warm = 0
        if peer.warmup:
            limit = peer.warmup + GRACE
            order = {"name": peer.name, "workers": workers, "warmup": peer.warmup}
            warm = agent.ask(limit, do="uncontended", seconds=_BRIEFLY, **order)["total"]
        before = agent.processor_time()
        order = {"name": peer.name, "workers": workers, "warmup": pace.warmup}
        limit = pace.warmup + pace.seconds + GRACE
        answer = agent.ask(limit, do="uncontended", seconds=pace.seconds, **order)
        cpu = agent.processor_time() - before
    return Sample.of(answer["rate"], answer["total"]), cpu, warm


WORK = Work(
    name="uncontended",
    question="How many pairs of acquire and release a second when nobody else wants the lock?",
    columns=(
        Column("rate", "pairs/s"),
        Column("client", "client CPU, s per million pairs", ".1f", 1e6),
        Column("server", "server CPU, s per million pairs", ".1f", 1e6),
    ),
    contenders=line_up(cases(), peers.UNCONTENDED),
    measure=measure_pairs,
    brief=line_up(cases((4,), (20,)), peers.PYTHON),
    goals=(
        *(Goal(str(case), "rate", to="bare", least=0.85) for case in cases(tasks=())),
        *(Goal(f"{n} threads", "rate", to="redis-py", least=2.0) for n in (8, 32)),
        Goal("100 tasks", "rate", to="redis-py", least=6.0),
        *(Goal(f"{n} tasks", "rate", to="bare", least=0.6) for n in (100, 1000)),
        *(Goal(str(case), "rate", to="redisson", least=1.0) for case in cases(tasks=())),
    ),
)
