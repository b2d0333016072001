"""The schemes that people choose instead: how fast they are."""

from __future__ import annotations

from dataclasses import replace

from benchmarks.measure import Case
from benchmarks.peers import interlock
from benchmarks.peers.rivals import RIVALS
from benchmarks.report import BEST, Goal
from benchmarks.work import line_up
from benchmarks.works import contended, handoff, uncontended

_ALL = (interlock.SYNC, *RIVALS)
_PAIRS = (Case("threads", 1), Case("threads", 8))
_TURNS = Case("threads", 8, processes=4, work=0.001)

PAIRS = replace(
    uncontended.WORK,
    name="rivals",
    question="How many pairs a second do other schemes make when nobody else wants the lock?",
    contenders=line_up(_PAIRS, _ALL),
    brief=line_up(_PAIRS[:1], (interlock.SYNC, *RIVALS[:2])),
    references=("interlock",),
    goals=tuple(Goal(str(case), "rate", to=BEST, least=1.0) for case in _PAIRS),
    rounds=5,
    notes=("rows are durable, as the packages configure it; Redis writes nothing to the disk",),
)

HANDOFF = replace(
    handoff.WORK,
    name="rivals-handoff",
    question="How long is a hand-off between processes with other schemes?",
    contenders=line_up(handoff.CASES[:1], _ALL),
    brief=(),
    references=("interlock",),
    goals=(Goal(str(handoff.CASES[0]), "p50", to=BEST, most=1.0),),
    rounds=3,
)

TURNS = replace(
    contended.WORK,
    name="rivals-contended",
    question="What do other schemes give to 4 processes with 8 threads that want one lock?",
    columns=contended.COLUMNS[:-1],
    contenders=line_up((_TURNS,), _ALL),
    brief=(),
    references=("interlock",),
    goals=(Goal(str(_TURNS), "rate", to=BEST, least=1.0),),
    seconds=5.0,
    rounds=2,
)
