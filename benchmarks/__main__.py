"""Measure interlock beside other locks, or with --against beside another version of itself."""

from __future__ import annotations

import argparse
import contextlib
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import instructions, version
from benchmarks.measure import Case, Pace, measure_case
from benchmarks.peers import OBJECTS
from benchmarks.report import environment, table, write
from benchmarks.servers import Servers
from benchmarks.works import RIVALS, SHORT, SHORT_PEERS, WORKS, short_cases

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.measure import Result
    from benchmarks.works import Work

_COUNTED = "instructions"


def main(words: Sequence[str] | None = None) -> int:
    """Do what the command line asks for; 1 if a lock ended in an error or became slower."""
    parser = _parser()
    asked = parser.parse_args(words)
    if unknown := [name for name in asked.names if name not in (*WORKS, _COUNTED)]:
        parser.error(f"no such benchmark: {', '.join(unknown)}")
    status = 0
    if _COUNTED in asked.names:
        status = instructions.run(asked.only, update=asked.update, check=asked.check)
    works = [WORKS[name] for name in asked.names or WORKS if name != _COUNTED]
    if not works:
        return status
    with contextlib.ExitStack() as stack:
        try:
            other = stack.enter_context(version.other(asked.against)) if asked.against else None
        except ValueError as wrong:
            parser.error(str(wrong))
        servers = stack.enter_context(Servers(asked.server))
        return max(status, _measure(works, asked, servers, other))


def _measure(
    works: Sequence[Work], asked: argparse.Namespace, servers: Servers, other: Path | None
) -> int:
    titles = environment(servers.version())
    print(titles)
    results: dict[str, Sequence[Result]] = {}
    tables: list[str] = []
    for work in works:
        pace = SHORT if asked.short else Pace(asked.slices, asked.seconds or work.seconds)
        peers = asked.peers or (SHORT_PEERS if asked.short else None)
        found: list[Result] = []
        for case in asked.case or (short_cases(work) if asked.short else work.cases):
            contenders = work.contenders(case, peers, other)
            found += measure_case(case, contenders, pace, servers, work.measure, apart=work.apart)
        results[work.name] = found
        tables.append(table(work, found, pace))
        print(f"\n{tables[-1]}", flush=True)
    if asked.output is not None:
        write(asked.output, "\n".join(tables), results, titles=titles)
        print(f"written to {asked.output}")
    return int(any(result.error for found in results.values() for result in found))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    named = f"{', '.join(WORKS)} (default: these) or {_COUNTED}"
    add("names", nargs="*", metavar="NAME", help=named)
    add("--short", action="store_true", help="one short slice of few locks, to see that it runs")
    add("--output", type=Path, metavar="DIR", help="write the report, its figures and two charts")
    add("--against", metavar="CODE", help="a checkout or commit to compare interlock with")
    add("--slices", type=_count, default=5, help="of each lock, taken by turns (default: 5)")
    add("--seconds", type=float, help="of a slice (default: 1; handoff: 3)")
    add(
        "--case",
        type=Case.parse,
        action="append",
        help="in place of a benchmark's own: '8x1 threads', '4x100 tasks, 1 ms' (several times)",
    )
    add("--peers", type=_peers, metavar="NAME,...", help="only these locks")
    add("--server", type=Path, metavar="PATH", help="the redis-server or valkey-server to run")
    counted = parser.add_argument_group(_COUNTED)
    add = counted.add_argument
    add("--check", action="store_true", help="fail if an object takes 5 %% more than it did")
    add("--update", action="store_true", help=f"write {instructions.TABLE.name} anew")
    add("--only", type=re.compile, default=re.compile(""), metavar="REGEX", help="these objects")
    return parser


def _count(text: str) -> int:
    if not text.isdecimal() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number above 0")
    return int(text)


def _peers(text: str) -> list[str]:
    names = text.split(",")
    if unknown := [name for name in names if name not in (*OBJECTS, *RIVALS)]:
        raise argparse.ArgumentTypeError(f"no such lock: {', '.join(unknown)}")
    return names


if __name__ == "__main__":
    sys.exit(main())
