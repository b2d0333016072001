"""Many processes with one thread each on one name: the typical fleet."""

from __future__ import annotations

import math
import time
from typing import TYPE_CHECKING

from benchmarks.contend import clock, from_rows
from benchmarks.fleet import every
from benchmarks.measure import GRACE, Case
from benchmarks.peer import ProgramPeer
from benchmarks.peers import (
    family,
    interlock,
    pottery,
    programs,
    python_redis_lock,
    redis_py,
    rivals,
)
from benchmarks.report import BEST, Column, Goal
from benchmarks.turns import check_exclusive, summarise
from benchmarks.work import Work, line_up

if TYPE_CHECKING:
    from benchmarks.compare import Contender
    from benchmarks.measure import Pace
    from benchmarks.peer import Peer
    from benchmarks.work import Bed

_NAME = "contended"
_LEAD = 0.3
"""Seconds in which every agent hears when to begin."""
_WORK = 0.001
"""Seconds for which the lock is held."""
_SETTLE, _MOST_SETTLE = 0.02, 5.0
"""Seconds of warm-up for each worker, and at most. In the beginning all ask at once."""
_PERMITS = {family.SEMAPHORE_OF_FOUR.name: 4}

_SIZES, _MOST = (2, 8, 32), 128
_WORKS = (_WORK, 0.0)
_AWAY = (0.001, 0.01)
"""Seconds of a round trip to a server that is not on this machine."""


def _single(processes: int, work: float, away: float = 0.0) -> Case:
    return Case("threads", 1, processes=processes, work=work, away=away)


SMALL = tuple(_single(n, work) for n in _SIZES for work in _WORKS)
LARGE = tuple(_single(_MOST, work) for work in _WORKS)
SINGLE = (*SMALL, *LARGE)
FAR = tuple(_single(n, work, away) for away in _AWAY for n in _SIZES for work in _WORKS)
SEVERAL = tuple(Case("threads", 8, processes=4, work=work) for work in _WORKS)
CLIENTS = tuple(
    Case(kind, 250, processes=4, work=_WORK, label=f"1,000 clients in {kind}, 1 ms")
    for kind in ("tasks", "threads")
)
_FEW = tuple(_single(n, work) for n in (2, 4) for work in _WORKS)

OURS: tuple[Peer, ...] = (interlock.SYNC, *family.FLEET)
_POLITE: tuple[Peer, ...] = (python_redis_lock.SYNC, redis_py.SYNC)
_OTHERS: tuple[Peer, ...] = (*_POLITE, pottery.SYNC)
_RIVALS: tuple[Peer, ...] = (programs.RUEIDISLOCK, programs.REDSYNC, rivals.ADVISORY)
_CHOSEN: tuple[Peer, ...] = (interlock.SYNC, python_redis_lock.SYNC, *_RIVALS)
"""Few enough that all their processes fit into memory."""

_COLUMNS = (
    Column("rate", "acquisitions/s"),
    Column("uneven", "most/least", ".2f"),
    Column("p50_wait", "p50 wait, ms", ".1f", 1000),
    Column("p99_wait", "p99 wait, ms", ".1f", 1000),
    Column("max_wait", "longest wait, ms", ".0f", 1000),
    Column("p99_of_ideal", "p99 / ideal", ".2f"),
    Column("max_of_ideal", "longest / ideal", ".2f"),
    Column("commands", "commands each", ".2f"),
    Column("messages", "publications each", ".2f"),
    Column("server", "server CPU each, µs", ".0f", 1e6),
    Column("client", "client CPU each, µs", ".0f", 1e6),
)


def measure(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
    """Contend for one name for a slice, prove that no more held it than may, and sum up."""
    case, peer, auditor = contender.case, contender.peer, bed.auditor
    agents = bed.fleets.of(contender, bed.url_of(peer, case.away))
    order = {"do": "prepare", "name": _NAME, "workers": case.workers, "work": case.work}
    every(agents, order, GRACE * 4)
    begins = clock() + _LEAD
    settle = min(_SETTLE * case.processes * case.workers, _MOST_SETTLE)
    own = peer.warmup if isinstance(peer, ProgramPeer) else 0
    opens = begins + max(pace.warmup, settle, own)
    closes = opens + pace.seconds
    for agent in agents:
        agent.send(do="contend", opens=begins, closes=closes)

    def spent() -> tuple[float, ...]:
        clients = sum(agent.processor_time() for agent in agents)
        commands = auditor.commands(peer.calls)
        return commands, auditor.publications(), auditor.processor_time(), clients

    time.sleep(max(0.0, opens - clock()))
    began = spent()
    time.sleep(max(0.0, closes - clock()))
    ended = spent()
    answers = [agent.receive(4 * GRACE) for agent in agents]
    workers = [turns for answer in answers for turns in from_rows(answer["workers"])]
    permits = _PERMITS.get(peer.name, 1)
    check_exclusive(workers, permits)
    figures = summarise(workers, opens, closes)
    total = figures["rate"] * pace.seconds
    commands, messages, server, client = (
        (late - early) / total for early, late in zip(began, ended, strict=True)
    )
    # If nobody has to wait, there is no ideal.
    ideal = max(0, len(workers) - permits) / figures["rate"] or math.nan
    return {
        **figures,
        "p99_of_ideal": figures["p99_wait"] / ideal,
        "max_of_ideal": figures["max_wait"] / ideal,
        "commands": commands,
        "messages": messages,
        "server": server,
        "client": client,
    }


_ONE_ROUND_TRIP = tuple(
    case for case in FAR if case.away == _AWAY[-1] and case.processes > _SIZES[0] and not case.work
)
"""Here a turn is to take one round trip, not two. Of two processes, each also waits for replies."""


def _goals(case: Case) -> tuple[Goal, ...]:
    name, rival = str(case), python_redis_lock.SYNC.name
    return (
        Goal(name, "rate", to=rival, least=1.2 if case.work else 2.0),
        Goal(name, "uneven", most=1.1),
        Goal(name, "max_of_ideal", most=2.0),
        Goal(name, "commands", most=3.0),
        Goal(name, "messages", most=2.0),
    )


WORK = Work(
    name="fleet",
    question="What do many processes get from one lock that all of them want all the time?",
    columns=_COLUMNS,
    contenders=(
        *line_up(SMALL, (*OURS, *_OTHERS, *_RIVALS)),
        *line_up(LARGE, _CHOSEN),
        *line_up(FAR, _CHOSEN),
        *line_up(SEVERAL, (*OURS, *_OTHERS, programs.REDISSON, *_RIVALS)),
        *line_up(_FEW, (programs.REDISSON,)),
        *line_up(CLIENTS, (interlock.CLIENTS, interlock.ASYNC_CLIENTS, *_POLITE, redis_py.ASYNC)),
    ),
    measure=measure,
    brief_seconds=1.0,
    brief=line_up(SINGLE[:1], (*OURS, python_redis_lock.SYNC)),
    references=("interlock", "python-redis-lock"),
    goals=(
        *(goal for case in SINGLE for goal in _goals(case)),
        *(Goal(str(case), "rate", to=BEST, least=1.0) for case in (*SINGLE, *FAR)),
        *(Goal(str(case), "rate", least=1 / (1.5 * case.away)) for case in _ONE_ROUND_TRIP),
    ),
    seconds=1.0,
    rounds=10,
    alive=True,
    notes=(
        "all fleets of a case are alive at once, and have slices by turns",
        "ideal: a wait of one turn of each other worker, divided by the permits",
        "away: behind a proxy that adds so much to a round trip, for each peer's own server",
        "publications: messages that were published; each reaches every process that listens",
        "1,000 clients: four processes of 250 tasks or threads, each with a client of interlock's",
    ),
)
