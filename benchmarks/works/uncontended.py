"""Pairs of acquire and release per second when nobody competes, beside the bare limit."""

from __future__ import annotations

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


def cases(threads: Sequence[int] = THREADS, tasks: Sequence[int] = TASKS) -> list[Case]:
    """Return a case for each number of threads and of tasks."""
    return [Case("threads", n) for n in threads] + [Case("tasks", n) for n in tasks]


def measure_pairs(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
    """Count the pairs of one contender, and have the server asked whether it was so."""
    peer, workers = contender.peer, contender.case.workers
    if isinstance(peer, ProgramPeer):
        sample = _measure_program(peer, workers, bed.url, pace)
    else:
        sample = measure(peer, workers, bed.url_of(peer), pace)
    if peer.server == "redis":
        bed.auditor.check(sample.total, workers, peer.calls, peer.leaves)
    return {"rate": sample.rate}


def _measure_program(peer: ProgramPeer, workers: int, url: str, pace: Pace) -> Sample:
    with fleet(peer, url, agents=1, workers=workers) as (agent,):
        warmup = max(pace.warmup, peer.warmup)
        limit = warmup + pace.seconds + GRACE
        order = {"name": peer.name, "workers": workers, "warmup": warmup, "seconds": pace.seconds}
        answer = agent.ask(limit, do="uncontended", **order)
    return Sample.of(answer["rate"], answer["total"])


WORK = Work(
    name="uncontended",
    question="How many pairs of acquire and release a second when nobody else wants the lock?",
    columns=(Column("rate", "pairs/s"),),
    contenders=line_up(cases(), peers.UNCONTENDED),
    measure=measure_pairs,
    brief=line_up(cases((4,), (20,)), peers.PYTHON),
    goals=(
        *(Goal(str(case), "rate", to="bare", least=0.85) for case in cases(tasks=())),
        *(Goal(f"{n} threads", "rate", to="redis-py", least=2.0) for n in (8, 32)),
        Goal("100 tasks", "rate", to="redis-py", least=6.0),
        Goal("100 tasks", "rate", to="bare", least=0.6),
        *(Goal(str(case), "rate", to="redisson", least=1.0) for case in cases(tasks=())),
    ),
)
