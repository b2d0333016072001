"""The command line: one command for each question, or none for all of them."""

from __future__ import annotations

import argparse
import json
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks import beside, glance, instructions, peers
from benchmarks.everything import WARMUP, conduct_all
from benchmarks.failover import command as failover
from benchmarks.measure import Pace
from benchmarks.recipes import command as recipes
from benchmarks.report import as_json
from benchmarks.tables import as_table
from benchmarks.work import conduct, line_up
from benchmarks.works import WORKS, uncontended
from benchmarks.works.family import OBJECTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from benchmarks.report import Report
    from benchmarks.work import Work


def main(words: Sequence[str] | None = None) -> int:
    """Measure one work and print its report; 1 when a peer ended in an error."""
    arguments = _parser().parse_args(words)
    if arguments.command is None:
        return _everything(arguments)
    if arguments.command == "failover":
        return failover.run(arguments)
    if arguments.command == "recipes":
        return recipes.run(arguments)
    if arguments.command == "instructions":
        return instructions.run(arguments)
    if arguments.command == "glance":
        return _glance(arguments)
    report = run(_work(arguments), arguments)
    text = json.dumps(as_json(report), indent=2)
    if arguments.json not in (None, "-"):
        Path(arguments.json).write_text(text + "\n", encoding="utf-8")
    print(text if arguments.json == "-" else as_table(report))
    if arguments.command == OBJECTS.name:
        if arguments.json != "-":
            print(f"\nof its own bare limit:\n\n{beside.as_twins(report)}")
        if arguments.page is not None:
            beside.write(report, arguments.page)
    return int(report.failed)


def _everything(arguments: argparse.Namespace) -> int:
    reports = conduct_all(
        WORKS.values(),
        arguments.output,
        short=arguments.short,
        seed=arguments.seed,
        server=arguments.server,
    )
    print("\n\n\n".join(as_table(report) for report in reports))
    print(f"\nwritten to {arguments.output}")
    return int(any(report.failed for report in reports))


def _glance(arguments: argparse.Namespace) -> int:
    reports = glance.conduct_page(
        arguments.page,
        arguments.pictures,
        rounds=arguments.rounds,
        seconds=arguments.seconds,
        seed=arguments.seed,
        server=arguments.server,
    )
    print(arguments.page.read_text(encoding="utf-8"))
    return int(any(report.failed for report in reports))


def run(work: Work, arguments: argparse.Namespace) -> Report:
    """Measure *work* as the command line says."""
    return conduct(
        work,
        pace=Pace(arguments.warmup, arguments.seconds),
        rounds=arguments.rounds,
        seed=arguments.seed,
        server=arguments.server,
    )


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    add = parser.add_argument
    add("--short", action="store_true", help="without a work: one short round, to see that it runs")
    add("--output", type=Path, default=Path("benchmark-report"), metavar="DIRECTORY")
    add("--seed", type=int, help="of the order; by default drawn, and printed")
    add("--server", type=Path, metavar="PATH", help="the redis-server or valkey-server to run")
    commands = parser.add_subparsers(dest="command", metavar="WORK")
    failover.configure(
        commands.add_parser("failover", help=failover.QUESTION, description=failover.QUESTION)
    )
    recipes.configure(
        commands.add_parser("recipes", help=recipes.QUESTION, description=recipes.QUESTION)
    )
    instructions.configure(
        commands.add_parser(
            "instructions", help=instructions.QUESTION, description=instructions.QUESTION
        )
    )
    command = commands.add_parser("glance", help=glance.QUESTION, description=glance.QUESTION)
    command.add_argument("--page", type=Path, default=Path("docs/explanation/glance.md"))
    command.add_argument("--pictures", type=Path, default=Path("docs/pictures"))
    command.add_argument("--rounds", type=_count, help="of each work; default: as each wants")
    command.add_argument("--seconds", type=float, help="counted each time; default: as each wants")
    for name, work in WORKS.items():
        command = commands.add_parser(name, help=work.question, description=work.question)
        add = command.add_argument
        if name == "uncontended":
            add("--threads", type=_counts, default=uncontended.THREADS, metavar="N,...")
            add("--tasks", type=_counts, default=uncontended.TASKS, metavar="N,...")
        if name == OBJECTS.name:
            add(
                "--page",
                nargs="?",
                type=Path,
                const=Path("docs/reference/benchmarks.md"),
                metavar="FILE",
                help="write the table of shares into this page as well; default: the documentation",
            )
        add(
            "--only", type=re.compile, metavar="REGEX", help="the cases in whose name this is found"
        )
        add("--peers", type=_names, default=peers.NAMES, metavar="NAME,...", help="default: all")
        add("--rounds", type=_count, default=work.rounds, help=f"default: {work.rounds}")
        seconds = f"counted in every round; default: {work.seconds:g}"
        add("--seconds", type=float, default=work.seconds, help=seconds)
        add("--warmup", type=float, default=WARMUP, help=f"seconds before these; default: {WARMUP}")
        add("--seed", type=int, help="of the order; by default drawn, and printed")
        add("--server", type=Path, metavar="PATH", help="the redis-server or valkey-server to run")
        add(
            "--json",
            nargs="?",
            const="-",
            metavar="FILE",
            help="write JSON to FILE as well; without FILE to standard output instead of the table",
        )
    return parser


def _work(arguments: argparse.Namespace) -> Work:
    work: Work = WORKS[arguments.command]
    if arguments.command == "uncontended":
        cases = uncontended.cases(arguments.threads, arguments.tasks)
        work = replace(work, contenders=line_up(cases, peers.UNCONTENDED))
    chosen = [
        contender
        for contender in work.contenders
        if contender.peer.name in arguments.peers
        and (arguments.only is None or arguments.only.search(str(contender.case)))
    ]
    return replace(work, contenders=tuple(chosen))


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


if __name__ == "__main__":
    sys.exit(main())
