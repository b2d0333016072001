"""Pairs of acquire and release per second when nobody competes, beside the bare limit."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import peers
from benchmarks.audit import Auditor
from benchmarks.compare import Contender, compare
from benchmarks.environment import Environment
from benchmarks.measure import Case, Pace, measure
from benchmarks.report import Report
from interlock.testing.server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.peer import Peer

REFERENCES = ("bare", "redis-py")


def configure(parser: argparse.ArgumentParser) -> None:
    """Declare the options."""
    add = parser.add_argument
    add("--threads", type=_counts, default=(1, 8, 32), metavar="N,...", help="default: 1,8,32")
    add("--tasks", type=_counts, default=(1, 100), metavar="N,...", help="default: 1,100")
    add("--peers", type=_names, default=peers.NAMES, metavar="NAME,...", help=",".join(peers.NAMES))
    add("--rounds", type=_count, default=7, help="default: 7")
    add("--seconds", type=float, default=1.0, help="counted in every round; default: 1")
    add("--warmup", type=float, default=0.3, help="seconds before these; default: 0.3")
    add("--seed", type=int, help="of the order; by default drawn, and printed")
    add("--server", type=Path, metavar="PATH", help="the redis-server or valkey-server to run")


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _counts(text: str) -> tuple[int, ...]:
    return tuple(_count(word) for word in text.split(",")) if text else ()


def _names(text: str) -> tuple[str, ...]:
    names = tuple(text.split(","))
    if unknown := [name for name in names if name not in peers.NAMES]:
        raise argparse.ArgumentTypeError(f"no such peer: {', '.join(unknown)}")
    return names


def run(arguments: argparse.Namespace) -> Report:
    """Measure what the command line asks for."""
    chosen = [peer for peer in peers.PEERS if peer.name in arguments.peers]
    contenders = line_up(chosen, threads=arguments.threads, tasks=arguments.tasks)
    seed = random.randrange(2**32) if arguments.seed is None else arguments.seed
    return report(
        contenders,
        pace=Pace(arguments.warmup, arguments.seconds),
        rounds=arguments.rounds,
        seed=seed,
        server=arguments.server,
    )


def line_up(
    chosen: Sequence[Peer], *, threads: Sequence[int], tasks: Sequence[int]
) -> list[Contender]:
    """Put each peer into each case of its kind, case by case."""
    cases = [Case("threads", n) for n in threads] + [Case("tasks", n) for n in tasks]
    return [Contender(case, peer) for case in cases for peer in chosen if peer.kind == case.kind]


def report(
    contenders: Sequence[Contender], *, pace: Pace, rounds: int, seed: int, server: Path | None
) -> Report:
    """Measure *contenders* on a private server, auditing every run."""
    environment = Environment.here()
    with RedisServer(server) as private, private.client() as client:
        url, auditor = private.url(), Auditor(client)

        def audited(contender: Contender) -> float:
            auditor.begin()
            sample = measure(contender.peer, contender.case.workers, url, pace)
            auditor.check(sample.total, contender.case.workers, contender.peer.calls)
            return sample.rate

        def progress(number: int, contender: Contender) -> None:
            where = f"round {number}/{rounds}: {contender.case}, {contender.peer.name}"
            print(where, file=sys.stderr, flush=True)

        results = compare(contenders, rounds=rounds, seed=seed, measure=audited, progress=progress)
        return Report(
            command="uncontended",
            unit="pairs/s",
            settings={
                "rounds": rounds,
                "seconds": pace.seconds,
                "warmup": pace.warmup,
                "seed": seed,
            },
            environment=environment,
            server=auditor.server(),
            results=results,
            references=REFERENCES,
        )
