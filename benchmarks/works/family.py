"""Every other object beside the plain lock: uncontended, and wanted by many."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from benchmarks import peers
from benchmarks.measure import Case, measure
from benchmarks.peer import ProgramPeer
from benchmarks.peers import bare, interlock
from benchmarks.report import Column, Goal
from benchmarks.work import Work, line_up
from benchmarks.works import contended

if TYPE_CHECKING:
    from benchmarks.compare import Contender
    from benchmarks.measure import Pace
    from benchmarks.work import Bed

_ONE_NAME = "read lock on one name"
_LOCKS = (interlock.SYNC, interlock.ASYNC)
_CASES = (
    *(Case("threads", number) for number in (1, 8, 32)),
    *(Case("tasks", number) for number in (100, 1000)),
)


def _measure(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
    peer, workers = contender.peer, contender.case.workers
    assert not isinstance(peer, ProgramPeer)
    sample = measure(peer, workers, bed.url, pace)
    sent = bed.auditor.commands(peer.calls)
    # Each worker of a bare limit has its object make pairs before, which are recorded.
    before = 2 * workers if peer in peers.OWN_LIMITS else workers
    bed.auditor.check(sample.total, before, peer.calls, peer.leaves)
    return {"rate": sample.rate, "trips": sent / sample.total, "pairs": float(sample.total)}


_LEAST = dict(zip(map(str, _CASES), (0.8, 0.8, 0.75, 0.55, 0.55), strict=True))
"""Of its own bare limit, for each object."""
_NAMES = tuple(dict.fromkeys(peer.name for peer in peers.MEASURED))

OBJECTS = Work(
    name="objects",
    question="What does each object cost beside its own bare limit when nobody waits?",
    columns=(Column("rate", "pairs/s"), Column("trips", "commands a pair", ".2f")),
    contenders=line_up(
        _CASES,
        (bare.SYNC, bare.ASYNC, *_LOCKS, *peers.FAMILY, *peers.AGAIN, *peers.OWN_LIMITS),
    ),
    measure=_measure,
    references=("bare", "interlock"),
    goals=(
        *(
            Goal(case, "rate", to=f"bare {name}", least=least, peer=name)
            for name in _NAMES
            for case, least in _LEAST.items()
        ),
        Goal("32 threads", "rate", to="interlock", least=0.8, peer=_ONE_NAME),
    ),
    rounds=7,
    brief=line_up((_CASES[0],), (bare.SYNC, *_LOCKS, *peers.FAMILY)),
    notes=(
        "the audit finds two EVALSHA a pair, six of the multi lock of three, and nothing else",
        "the own bare limit of an object sends the recorded bytes of its pair by bare sockets",
    ),
)

_WANTED = (Case("threads", 8, processes=4, work=0.001), Case("tasks", 32, work=0.001))
_EXCLUSIVE = tuple(peer for peer in peers.FAMILY if not peer.name.startswith("read lock"))
_OF_TASKS = tuple(peer for peer in _EXCLUSIVE if peer.kind == "tasks")

WANTED = replace(
    contended.WORK,
    name="wanted",
    question="What do many workers get from each object, with 1 ms of work?",
    contenders=line_up(_WANTED, (*_LOCKS, *_EXCLUSIVE)),
    references=("interlock",),
    goals=(),
    seconds=5.0,
    brief=line_up((Case("tasks", 8),), (interlock.ASYNC, *_OF_TASKS[:2])),
)
