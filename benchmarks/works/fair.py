"""Many processes with one thread each on one lock: who is next, and how soon."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

from benchmarks.compare import Contender
from benchmarks.contend import clock, from_rows
from benchmarks.fleet import every, fleet
from benchmarks.measure import GRACE, Case, NothingCountedError
from benchmarks.peers import interlock, python_redis_lock
from benchmarks.peers.family import FAIR
from benchmarks.report import Column, Goal
from benchmarks.turns import check_exclusive, percentile, summarise
from benchmarks.work import Work, line_up

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measure import Pace
    from benchmarks.turns import Turn
    from benchmarks.work import Bed

_LEAD = 0.5  # seconds in which every agent hears when to begin.
# A worker came first beyond any doubt if it asked so many seconds before another. A request takes a
# while to reach the server, longer on a busy machine.
_DOUBT = 0.1

CASE = Case("threads", 1, processes=32, work=0.001)


def overtakings(workers: Sequence[Sequence[Turn]], doubt: float) -> int:
    """Count the turns that somebody got who had asked after another who still waited."""
    turns = sorted((turn for turns in workers for turn in turns), key=lambda turn: turn.got)
    earliest = float("inf")  # to have asked, of those who get the lock later
    count = 0
    for turn in reversed(turns):
        count += turn.asked > earliest + doubt
        earliest = min(earliest, turn.asked)
    return count


def _measure(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
    case, peer = contender.case, contender.peer
    with fleet(peer, bed.url, agents=case.processes, workers=1) as agents:
        every(agents, {"do": "prepare", "name": "fair", "workers": 1, "work": case.work}, 4 * GRACE)
        begins = clock() + _LEAD
        opens, closes = begins + pace.warmup, begins + pace.warmup + pace.seconds
        order = {"do": "contend", "opens": begins, "closes": closes}
        answers = every(agents, order, pace.seconds + 4 * GRACE)
    workers = [turns for answer in answers for turns in from_rows(answer["workers"])]
    check_exclusive(workers)
    figures = summarise(workers, opens, closes)
    turns = sorted((turn for turns in workers for turn in turns), key=lambda turn: turn.got)
    delays = [
        after.got - before.gave
        for before, after in pairwise(turns)
        if opens <= before.gave and after.got < closes
    ]
    if not delays:
        raise NothingCountedError("no hand-over began and ended while it was counted")
    return {
        "p50": percentile(delays, 0.5),
        "p99": percentile(delays, 0.99),
        "overtaken": float(overtakings(workers, _DOUBT)),
        **figures,
    }


WORK = Work(
    name="fair",
    question="What does strict order cost 32 processes that want one lock for 1 ms each?",
    columns=(
        Column("p50", "p50 hand-over, µs", scale=1e6),
        Column("p99", "p99 hand-over, µs", scale=1e6),
        Column("overtaken", "overtakings"),
        Column("rate", "acquisitions/s"),
        Column("uneven", "most/least", ".2f"),
        Column("max_wait", "max wait, ms", ".0f", 1000),
    ),
    contenders=line_up((CASE,), (interlock.SYNC, FAIR, python_redis_lock.SYNC)),
    measure=_measure,
    references=("interlock",),
    goals=(
        Goal(str(CASE), "overtaken", most=0, peer=FAIR.name),
        Goal(str(CASE), "p50", to="interlock", most=0.001, peer=FAIR.name, apart=True),
    ),
    seconds=5.0,
    rounds=3,
    brief_seconds=1.5,
    brief=(Contender(Case("threads", 1, processes=3, work=0.001), FAIR),),
    notes=(
        (
            f"an overtaking: who asked more than {_DOUBT:g} s later than another "
            "got the lock before it"
        ),
    ),
)
