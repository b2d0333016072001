"""A work: one question, the figures that answer it, and what interlock is to reach.

Every work is measured the same way: in interleaved rounds, each measurement on emptied servers
that belong to the run and are stopped with it. A window may be too short for anything to be
counted, because the machine stood still or the peer is slow. Then there is no figure, and a longer
window follows. If a window of seconds has no figure either, that is an error.
"""

from __future__ import annotations

import contextlib
import random
import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from tests.support.server import RedisServer
from tests.support.servers import ClusterServers

from benchmarks.audit import Auditor
from benchmarks.compare import Contender, compare
from benchmarks.environment import Environment
from benchmarks.fleet import Fleets
from benchmarks.measure import GRACE, NothingCountedError
from benchmarks.report import Report
from benchmarks.servers import Others

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence
    from pathlib import Path

    from benchmarks.measure import Case, Pace
    from benchmarks.peer import Peer
    from benchmarks.report import Column, Goal

_LONGER = 4  # times the window in which nothing was counted


@dataclass(frozen=True, slots=True)
class Bed:
    """The servers of a run; most works have one.

    Attributes:
        servers: Those that are alone, and behind them the primaries of a cluster, if there is one.
        auditors: One for each.
        fleets: The processes of the peers that are measured by turns.
        cluster_url: Of the cluster.
    """

    servers: tuple[RedisServer, ...]
    auditors: tuple[Auditor, ...]
    others: Others
    fleets: Fleets
    cluster_url: str = ""

    @property
    def url(self) -> str:
        """The URLs, joined by spaces."""
        return " ".join(server.url() for server in self.servers)

    def url_of(self, peer: Peer, away: float = 0.0) -> str:
        """Return where *peer* finds its server; starts it if it is another than Redis.

        A round trip takes *away* seconds longer than here.
        """
        url = self.url if peer.server == "redis" else self.others.url(peer.server)
        return self.others.far_away(url, away) if away else url

    @property
    def auditor(self) -> Auditor:
        """The observer of the first server."""
        return self.auditors[0]


@dataclass(frozen=True, slots=True)
class Work:
    """One question.

    Attributes:
        name: On the command line.
        question: What is asked, in one sentence.
        columns: The figures; the first is the one that ratios are made of.
        contenders: Who is measured in which case.
        measure: Measures one contender once; whatever it raises is the result.
        references: The peers, by name, whose share the others are told as.
        goals: To be reached by interlock.
        servers: How many a run has.
        cluster: Whether it has a cluster of three primaries besides.
        seconds: Counted in every round, unless told otherwise.
        rounds: Unless told otherwise.
        alive: Whether all contenders of a case stay alive and are measured by turns. Then the
            machine's moods strike all of them alike.
        brief: Who is measured in a short run; nobody: the work is left out of it.
        brief_seconds: Counted in a short run; more where nothing counted would be an error.
        notes: What a reader of the figures must know.
    """

    name: str
    question: str
    columns: tuple[Column, ...]
    contenders: tuple[Contender, ...]
    measure: Callable[[Contender, Bed, Pace], Mapping[str, float]]
    references: tuple[str, ...] = ("bare", "redis-py")
    goals: tuple[Goal, ...] = ()
    servers: int = 1
    cluster: bool = False
    seconds: float = 1.0
    rounds: int = 7
    alive: bool = False
    brief: tuple[Contender, ...] = ()
    brief_seconds: float = 0.3
    notes: tuple[str, ...] = ()


def line_up(cases: Sequence[Case], chosen: Sequence[Peer]) -> tuple[Contender, ...]:
    """Put each peer into each case of its kind, case by case."""
    return tuple(
        Contender(case, peer) for case in cases for peer in chosen if peer.kind == case.kind
    )


def conduct(
    work: Work, *, pace: Pace, rounds: int, seed: int | None = None, server: Path | None = None
) -> Report:
    """Measure *work* on private servers.

    Args:
        work: What to measure.
        pace: How long each time.
        rounds: How often.
        seed: Of the order; None draws one.
        server: The binary to run.
    """
    environment = Environment.here()
    seed = random.randrange(2**32) if seed is None else seed
    with contextlib.ExitStack() as stack:
        servers = [stack.enter_context(RedisServer(server)) for _ in range(work.servers)]
        cluster_url = ""
        if work.cluster:
            cluster = stack.enter_context(ClusterServers(replicas=False, binary=server))
            servers += cluster.nodes
            cluster_url = cluster.url()
        clients = [stack.enter_context(server.client()) for server in servers]
        others = stack.enter_context(Others())
        auditors = tuple(Auditor(client) for client in clients)
        fleets = stack.enter_context(Fleets())
        bed = Bed(tuple(servers), auditors, others, fleets, cluster_url)

        def measured(contender: Contender) -> Mapping[str, float]:
            seconds = pace.seconds
            while True:
                for auditor in bed.auditors:
                    auditor.begin()
                try:
                    return work.measure(contender, bed, replace(pace, seconds=seconds))
                except NothingCountedError:
                    if seconds * _LONGER > GRACE:
                        raise
                    seconds *= _LONGER

        def progress(number: int, contender: Contender) -> None:
            where = f"{work.name}, round {number}/{rounds}: {contender.case}, {contender.peer.name}"
            print(where, file=sys.stderr, flush=True)

        results = compare(
            work.contenders,
            rounds=rounds,
            seed=seed,
            measure=measured,
            progress=progress,
            by_case=work.alive,
        )
        return Report(
            command=work.name,
            question=work.question,
            columns=work.columns,
            settings={
                "rounds": rounds,
                "seconds": pace.seconds,
                "warmup": pace.warmup,
                "seed": seed,
            },
            environment=environment,
            server=bed.auditor.server(),
            results=results,
            references=work.references,
            goals=work.goals,
            notes=work.notes,
        )
