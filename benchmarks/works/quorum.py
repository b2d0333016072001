"""A lock over five servers beside the plain lock on one of them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.measure import Case, measure
from benchmarks.peer import ProgramPeer
from benchmarks.peers import bare, interlock
from benchmarks.peers.quorum import QUORUM
from benchmarks.report import Column, Goal
from benchmarks.work import Work, line_up

if TYPE_CHECKING:
    from benchmarks.compare import Contender
    from benchmarks.measure import Pace
    from benchmarks.work import Bed

_CASES = (Case("threads", 1), Case("threads", 8), Case("tasks", 1), Case("tasks", 100))
_RED, _OVER_ALL = "red lock", "bare over all"
_ONE = (bare.SYNC, bare.ASYNC, interlock.SYNC, interlock.ASYNC)


def _measure(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
    peer, workers = contender.peer, contender.case.workers
    assert not isinstance(peer, ProgramPeer)
    spread = peer in QUORUM
    sample = measure(peer, workers, bed.url if spread else bed.servers[0].url(), pace)
    for auditor in bed.auditors if spread else bed.auditors[:1]:
        auditor.check(sample.total, workers, peer.calls, peer.leaves, peer.late)
    return {"time": workers / sample.rate, "rate": sample.rate}


WORK = Work(
    name="quorum",
    question="How much longer takes a lock over five servers than one on one of them?",
    columns=(Column("time", "µs a pair", scale=1e6), Column("rate", "pairs/s")),
    contenders=line_up(_CASES, (*_ONE, *QUORUM)),
    measure=_measure,
    references=("interlock", _OVER_ALL),
    goals=tuple(Goal(str(case), "time", to=_OVER_ALL, most=1.6, peer=_RED) for case in _CASES),
    servers=5,
    brief=line_up(_CASES[::2], (*_ONE, *QUORUM[:4])),
    rounds=5,
    notes=(
        "all five servers share this machine's processors with the client",
        "bare over all: what five servers cost here at the least, without a lock library",
    ),
)
