"""Many workers on one name, in one or several processes: how often, how evenly, how long a wait."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from benchmarks import peers
from benchmarks.contend import clock, from_rows
from benchmarks.fleet import every, fleet
from benchmarks.measure import GRACE, Case
from benchmarks.peer import ProgramPeer
from benchmarks.peers import interlock
from benchmarks.report import BEST_PYTHON, Column, Goal
from benchmarks.turns import check_exclusive, summarise
from benchmarks.work import Work, line_up

if TYPE_CHECKING:
    from benchmarks.compare import Contender
    from benchmarks.measure import Pace
    from benchmarks.work import Bed

_NAME = "contended"
_LEAD = 0.2  # seconds in which every agent hears when to begin
_WORK = 0.001  # seconds

CASES = (
    Case("threads", 32),
    Case("threads", 32, work=_WORK),
    Case("tasks", 100),
    Case("tasks", 100, work=_WORK),
    Case("threads", 8, processes=4),
    Case("threads", 8, processes=4, work=_WORK),
)
_ONE, _SEVERAL = CASES[:4], CASES[4:]

COLUMNS = (
    Column("rate", "acquisitions/s"),
    Column("uneven", "most/least", ".2f"),
    Column("p50_wait", "p50 wait, ms", ".1f", 1000),
    Column("p99_wait", "p99 wait, ms", ".1f", 1000),
    Column("max_wait", "max wait, ms", ".0f", 1000),
    Column("p99_of_ideal", "p99 / ideal", ".1f"),
    Column("commands", "commands each", ".2f"),
)


def measure(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
    """Contend for one name, prove that no two held it, and sum up."""
    case, peer = contender.case, contender.peer
    with fleet(peer, bed.url_of(peer), agents=case.processes, workers=case.workers) as agents:
        order = {"do": "prepare", "name": _NAME, "workers": case.workers, "work": case.work}
        every(agents, order, GRACE * 2)
        begins = clock() + _LEAD
        opens = begins + max(pace.warmup, peer.warmup if isinstance(peer, ProgramPeer) else 0)
        closes = opens + pace.seconds
        for agent in agents:
            agent.send(do="contend", opens=begins, closes=closes)
        time.sleep(max(0.0, opens - clock()))
        before = bed.auditor.commands(peer.calls)
        time.sleep(max(0.0, closes - clock()))
        after = bed.auditor.commands(peer.calls)
        answers = [agent.receive(2 * GRACE) for agent in agents]
    workers = [turns for answer in answers for turns in from_rows(answer["workers"])]
    check_exclusive(workers)
    figures = summarise(workers, opens, closes)
    return {**figures, "commands": (after - before) / (figures["rate"] * pace.seconds)}


WORK = Work(
    name="contended",
    question="What do many workers get from one lock that all of them want all the time?",
    columns=COLUMNS,
    contenders=line_up(CASES, peers.CONTENDED),
    measure=measure,
    brief_seconds=1.5,
    brief=line_up((CASES[0], CASES[2], CASES[4]), (*peers.LIMITS, interlock.SYNC, interlock.ASYNC)),
    references=("bare lock", "redis-py"),
    goals=(
        *(Goal(str(case), "rate", to=BEST_PYTHON, least=3.0) for case in _ONE),
        *(Goal(str(case), "uneven", most=1.5) for case in _ONE),
        *(Goal(str(case), "rate", to=BEST_PYTHON, least=2.0) for case in _SEVERAL),
        *(Goal(str(case), "commands", most=4.0) for case in _SEVERAL),
        *(Goal(str(case), "p99_of_ideal", most=2.0) for case in _SEVERAL),
        *(Goal(str(case), "rate", to="redisson", least=1.0) for case in CASES),
    ),
    seconds=10.0,
    rounds=3,
    notes=("ideal: a wait of one turn of each other worker; commands: those that clients sent",),
)
