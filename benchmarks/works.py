"""The questions: what is measured, who is measured, and which figures answer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from benchmarks import programs
from benchmarks.measure import Case, Contender, Pace, contend, hand_over
from benchmarks.peers import OBJECTS, TASKS, THREADS

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from benchmarks.measure import Measure

OURS = "interlock"
RIVALS = ("redis-py", "python-redis-lock", *programs.NAMES, "postgresql")
_WORK = 0.001


@dataclass(frozen=True, slots=True)
class Column:
    """A figure: its name, its title with the unit, and how it is printed."""

    name: str
    title: str
    form: str = ",.0f"
    scale: float = 1.0


@dataclass(frozen=True, slots=True)
class Work:
    """One question.

    Attributes:
        name: On the command line.
        question: In one sentence.
        columns: The figures; the first is the one that ratios are made of.
        cases: Unless others are named.
        peers: Who is measured, where a peer has that kind of worker.
        reference: The peer that the others are compared with.
        measure: Measures a contender once.
        seconds: Of a slice, unless told otherwise.
        apart: Whether each worker has a lock of its own.
    """

    name: str
    question: str
    columns: tuple[Column, ...]
    cases: tuple[Case, ...]
    peers: tuple[str, ...] = (OURS, *RIVALS)
    reference: str = "python-redis-lock"
    measure: Measure = contend
    seconds: float = 1.0
    apart: bool = False

    def contenders(
        self, case: Case, chosen: Sequence[str] | None, other: Path | None
    ) -> list[Contender]:
        """Return who is measured in *case*, with interlock of the checkout *other* if there is one.

        Args:
            case: One of any work.
            chosen: Peers by name. By default all, or beside *other* interlock and the reference.
            other: A checkout of interlock.
        """
        if chosen is None:
            chosen = self.peers if other is None else (*OBJECTS, self.reference)
        found = []
        for peer in self.peers:
            if peer in chosen and peer in (TASKS if case.kind == "tasks" else (*THREADS, *RIVALS)):
                found.append(Contender(peer))
                found += [Contender(peer, other)] if other and peer in OBJECTS else []
        return found


_PAIRS = (
    Column("rate", "pairs/s"),
    Column("client", "client CPU a pair, µs", ".1f", 1e6),
    Column("server", "server CPU a pair, µs", ".1f", 1e6),
    Column("scripts", "scripts a pair", ".2f"),
)
_TURNS = (
    Column("rate", "turns/s"),
    Column("uneven", "most/least", ".2f"),
    Column("p99", "p99 wait, ms", ".1f", 1e3),
    Column("longest", "longest wait, ms", ",.1f", 1e3),
    Column("scripts", "scripts a turn", ".2f"),
    Column("messages", "messages a turn", ".2f"),
    Column("client", "client CPU a turn, µs", ".0f", 1e6),
    Column("server", "server CPU a turn, µs", ".0f", 1e6),
)
_FLEETS = ((2, 1, "threads"), (8, 1, "threads"), (32, 1, "threads"), (4, 8, "threads"))

UNCONTENDED = Work(
    "uncontended",
    "How many pairs of acquire and release a second when nobody else wants the lock?",
    _PAIRS,
    cases=(
        *(Case(1, workers) for workers in (1, 8, 32)),
        *(Case(1, workers, "tasks") for workers in (1, 100, 1000)),
    ),
    reference="redis-py",
    apart=True,
)
FLEET = Work(
    "fleet",
    "What do many workers get from one lock that all of them want all the time?",
    _TURNS,
    cases=tuple(
        Case(*fleet, work=work) for fleet in (*_FLEETS, (4, 100, "tasks")) for work in (_WORK, 0.0)
    ),
)
HANDOFF = Work(
    "handoff",
    "How long from a release to the return of an acquire that waits in another process?",
    (Column("p50", "p50, µs", scale=1e6), Column("p99", "p99, µs", scale=1e6)),
    cases=(Case(2, 1), Case(2, 1, "tasks")),
    measure=hand_over,
    seconds=3.0,
)
OBJECTS_WORK = Work(
    "objects",
    "What does a pair of acquire and release of each object cost when nobody waits?",
    _PAIRS,
    cases=(Case(1, 1), Case(1, 8), Case(1, 100, "tasks")),
    peers=tuple(OBJECTS),
    reference=OURS,
    apart=True,
)
WORKS = {work.name: work for work in (UNCONTENDED, FLEET, HANDOFF, OBJECTS_WORK)}

SHORT = Pace(slices=1, seconds=0.3, warmup=0.1)
"""Enough to see that a benchmark runs."""
SHORT_PEERS = (*OBJECTS, "redis-py", "python-redis-lock")


def short_cases(work: Work) -> tuple[Case, ...]:
    """Return the first case of *work* for each kind of worker."""
    kinds = dict.fromkeys(case.kind for case in work.cases)
    return tuple(next(case for case in work.cases if case.kind == kind) for kind in kinds)
