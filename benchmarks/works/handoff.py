"""From a release in one process to the return of the acquire that waits for it in another."""

from __future__ import annotations

import random
import time
from typing import TYPE_CHECKING

from benchmarks import peers
from benchmarks.contend import clock
from benchmarks.fleet import fleet
from benchmarks.measure import Case
from benchmarks.peer import ProgramPeer
from benchmarks.peers import interlock
from benchmarks.ping import Pinger
from benchmarks.report import BEST, Column, Goal
from benchmarks.turns import OverlapError, percentile
from benchmarks.work import Work, line_up

if TYPE_CHECKING:
    from benchmarks.compare import Contender
    from benchmarks.fleet import Agent
    from benchmarks.measure import Pace
    from benchmarks.work import Bed

_NAME = "handoff"
_SETTLE = 0.005  # seconds until a waiter counts as waiting
_SPAN = 0.1  # seconds over which releases are spread, so that a poller is met at any point
_FEWEST = 5

CASES = (Case("threads", 1, processes=2), Case("tasks", 1, processes=2))


def measure(contender: Contender, bed: Bed, pace: Pace) -> dict[str, float]:
    """Hand the lock to and fro between two processes until the seconds are over."""
    delays: list[float] = []
    cold: list[float] = []
    with (
        Pinger(bed.servers[0].port) as pinger,
        fleet(contender.peer, bed.url_of(contender.peer), agents=2, workers=1) as agents,
    ):
        holder, waiter = agents
        warm = percentile(pinger.repeat(1000), 0.5)
        if isinstance(contender.peer, ProgramPeer):
            order = {"do": "uncontended", "workers": 1, "seconds": 0.1}
            for agent in agents:
                agent.send(**order, name=f"warmup:{agent.pid}", warmup=contender.peer.warmup)
            for agent in agents:
                agent.receive()
        holder.ask(do="acquire", name=_NAME)
        rng = random.Random()
        for _ in range(2):  # both sides once: connections, scripts, subscriptions
            _hand_over(holder, waiter, 0.05)
            holder, waiter = waiter, holder
        closes = clock() + pace.seconds
        while clock() < closes or len(delays) < _FEWEST:
            waiter.send(do="acquire", name=_NAME)
            rest = _SETTLE + rng.random() * _SPAN
            time.sleep(rest / 2)
            cold.append(pinger.once())
            time.sleep(rest / 2)
            delays.append(_hand_over(holder, waiter))
            holder, waiter = waiter, holder
        holder.ask(do="release")
    p50, p99, rested = percentile(delays, 0.5), percentile(delays, 0.99), percentile(cold, 0.5)
    return {
        "p50": p50,
        "p99": p99,
        "p50_pings": p50 / warm,
        "p99_pings": p99 / warm,
        "p50_cold": p50 / rested,
        "p99_cold": p99 / rested,
        "ping": warm,
        "cold_ping": rested,
        "handoffs": float(len(delays)),
    }


def _hand_over(holder: Agent, waiter: Agent, after: float | None = None) -> float:
    """Release and wait until the other side has it; return the seconds in between."""
    if after is not None:
        waiter.send(do="acquire", name=_NAME)
        time.sleep(after)
    released: float = holder.ask(do="release")["at"]
    got: float = waiter.receive()["at"]
    if got < released:
        raise OverlapError("the waiter had the lock before it was released")
    return got - released


WORK = Work(
    name="handoff",
    question="How long from a release to the return of an acquire that waits elsewhere?",
    columns=(
        Column("p50", "p50, µs", scale=1e6),
        Column("p99", "p99, µs", scale=1e6),
        Column("p50_pings", "p50 / PING", ".1f"),
        Column("p99_pings", "p99 / PING", ".1f"),
        Column("p50_cold", "p50 / cold PING", ".1f"),
        Column("p99_cold", "p99 / cold PING", ".1f"),
    ),
    contenders=line_up(CASES, peers.CONTENDED),
    measure=measure,
    brief=line_up(CASES, (*peers.LIMITS, interlock.SYNC, interlock.ASYNC)),
    references=("bare lock", "redis-py"),
    goals=(
        *(Goal(str(case), "p50", to="bare lock", most=1.2) for case in CASES),
        *(Goal(str(case), "p50", to=BEST, most=1.0) for case in CASES),
        *(Goal(str(case), "p99", to=BEST, most=1.0) for case in CASES),
        *(Goal(str(case), "p50", to="redisson", most=1.0) for case in CASES),
    ),
    seconds=5.0,
    rounds=5,
    notes=(
        (
            "PING: the median of a bare socket that sends one after the other; "
            "cold: after as long a rest"
        ),
    ),
)
