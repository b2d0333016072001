"""Locks of distinct names in a cluster of three primaries, beside the same on one server."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.audit import check_together
from benchmarks.measure import Case, measure
from benchmarks.peer import ProgramPeer
from benchmarks.peers import interlock
from benchmarks.report import Column, Goal
from benchmarks.work import Work, line_up

if TYPE_CHECKING:
    from benchmarks.compare import Contender
    from benchmarks.measure import Pace
    from benchmarks.work import Bed

_CASES = (
    Case("threads", 1),
    Case("threads", 8),
    Case("threads", 32),
    Case("tasks", 1),
    Case("tasks", 100),
)


def _measure(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
    peer, workers = contender.peer, contender.case.workers
    assert not isinstance(peer, ProgramPeer)
    spread = peer in interlock.CLUSTER
    sample = measure(peer, workers, bed.cluster_url if spread else bed.servers[0].url(), pace)
    auditors = bed.auditors[1:] if spread else bed.auditors[:1]
    # Each node sees a script for the first time.
    check_together(auditors, sample.total, workers * len(auditors), peer.calls)
    for auditor in auditors:
        auditor.check_empty(peer.leaves)
    return {"rate": sample.rate}


WORK = Work(
    name="cluster",
    question="How many pairs of acquire and release a second in a cluster, beside one server?",
    columns=(Column("rate", "pairs/s"),),
    contenders=line_up(_CASES, (interlock.SYNC, interlock.ASYNC, *interlock.CLUSTER)),
    measure=_measure,
    references=("interlock",),
    goals=tuple(
        Goal(str(case), "rate", to="interlock", least=0.9, peer="in a cluster") for case in _CASES
    ),
    cluster=True,
    notes=(
        "the three primaries have no replicas, and share this machine's processors with the client",
    ),
)
