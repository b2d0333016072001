"""`python -m benchmarks failover`: its options, its table, its JSON."""

from __future__ import annotations

import json
import re
import statistics
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.support.servers import RedisServer

from benchmarks.environment import Environment
from benchmarks.failover.cases import CASES
from benchmarks.failover.trial import DELAY, conduct

if TYPE_CHECKING:
    import argparse
    from collections.abc import Sequence

    from benchmarks.failover.trial import Tally

QUESTION = (
    "How often are two given one lock when the primary dies right after granting it, "
    "and a replica that has not heard of it takes over?"
)
_HEADS = (
    "lock", "failovers", "refused", "granted twice", "holder unaware", "told after",
    "stale writes let through", "rejected", "expected",
)  # fmt: skip


def configure(command: argparse.ArgumentParser) -> None:
    """Add the options of this command."""
    add = command.add_argument
    add("--only", type=re.compile, metavar="REGEX", help="the locks in whose name this is found")
    add("--rounds", type=int, default=100, help="failovers for each lock; default: 100")
    add("--delay", type=float, default=DELAY, help=f"replication's, in seconds; default: {DELAY}")
    add("--server", type=Path, metavar="PATH", help="the redis-server or valkey-server to run")
    add("--json", nargs="?", const="-", metavar="FILE", help="as of the other commands")


def run(arguments: argparse.Namespace) -> int:
    """Play, print, and return 1 where more went wrong than was expected."""
    cases = [case for case in CASES if not arguments.only or arguments.only.search(case.name)]
    environment = Environment.here()
    server = RedisServer(arguments.server)
    trials = conduct(cases, rounds=arguments.rounds, delay=arguments.delay, binary=arguments.server)
    tallies = [trial.tally for trial in trials]
    report = {
        "schema": 1,
        "command": "failover",
        "question": QUESTION,
        "settings": {"rounds": arguments.rounds, "delay": arguments.delay},
        "environment": asdict(environment),
        "server": {"name": server.binary.name, "version": ".".join(map(str, server.version))},
        "played_again": sum(trial.spoilt for trial in trials),
        "results": [_result(tally) for tally in tallies],
    }
    text = json.dumps(report, indent=2)
    if arguments.json not in (None, "-"):
        Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    print(text if arguments.json == "-" else table(tallies))
    return int(not all(tally.met for tally in tallies))


def table(tallies: Sequence[Tally]) -> str:
    """Return what was counted as a table in Markdown."""
    rows = [_HEADS, *map(_row, tallies)]
    widths = [max(len(row[column]) for row in rows) for column in range(len(_HEADS))]
    lines = [
        "| " + " | ".join(word.ljust(width) for word, width in zip(row, widths, strict=True)) + " |"
        for row in rows
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def _row(tally: Tally) -> tuple[str, ...]:
    told = (
        f"{statistics.median(tally.told):.3f} s"
        if tally.told
        else "never"
        if tally.unaware
        else "-"
    )
    expected = "-" if not tally.case.zero else "met" if tally.met else "MISSED"
    counts = (tally.rounds, tally.refused, tally.twice, tally.unaware)
    return (
        tally.case.name,
        *map(str, counts),
        told,
        str(tally.accepted),
        str(tally.rejected),
        expected,
    )


def _result(tally: Tally) -> dict[str, Any]:
    return {
        "lock": tally.case.name,
        "rounds": tally.rounds,
        "refused": tally.refused,
        "granted_twice": tally.twice,
        "holder_unaware": tally.unaware,
        "told_after": [round(seconds, 4) for seconds in tally.told],
        "stale_writes_let_through": tally.accepted,
        "stale_writes_rejected": tally.rejected,
        "zero_expected": tally.case.zero,
        "met": tally.met,
    }
