"""The command: ``python -m faultlab run``, ``check FILE``, ``mutants``."""

from __future__ import annotations

import argparse
import random
import signal
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.support.again import again
from tests.support.servers import binaries

from .arena import ARENAS
from .history import load
from .judge import Judge
from .mutants import MUTANTS, hunt
from .run import Plan, Run, report

_SHORT = {"single": 14.0, "forgetful": 5.0, "five": 4.0}
"""Seconds in each arena, in the short form."""


def _run(asked: argparse.Namespace) -> int:
    servers = binaries()
    wrong = 0
    for arena in asked.arena or list(ARENAS):
        for version in asked.server or list(servers):
            plan = Plan(
                arena,
                servers[version],
                asked.seed,
                asked.seconds,
                objects=asked.object or (),
                faults=asked.fault,
            )
            found = _one(plan, version, asked.histories)
            if found:
                given = {"object": asked.object, "fault": asked.fault}
                where = {"arena": arena, "server": version}
                print(
                    again("faultlab run", seed=asked.seed, seconds=asked.seconds, **where, **given)
                )
            wrong += found
    print(f"{wrong} findings in all, seed {asked.seed}")
    return bool(wrong)


def _one(plan: Plan, version: str, histories: Path) -> int:
    """Run *plan*; return how much was found."""
    print(f"--- {plan.arena}, {version}, seed {plan.seed}, {plan.seconds:g} s", flush=True)
    outcome = Run(plan).run()
    report(outcome, histories / f"{plan.arena}-{version}-{plan.seed}.jsonl")
    return len(outcome.findings)


def _short(asked: argparse.Namespace) -> int:
    """The form for CI: a minute."""
    version, binary = next(iter(binaries().items()))
    wrong = sum(
        _one(Plan(arena, binary, asked.seed, seconds, settle=3.0), version, asked.histories)
        for arena, seconds in _SHORT.items()
    )
    print(f"{wrong} findings in all, seed {asked.seed}")
    if wrong:
        print(again("faultlab short", seed=asked.seed))
    return bool(wrong)


def _check(asked: argparse.Namespace) -> int:
    findings = Judge(load([asked.file]), exact=not asked.inexact).judge()
    for finding in findings:
        print("FOUND", finding)
    print(f"{len(findings)} findings")
    return bool(findings)


def _mutants(asked: argparse.Namespace) -> int:
    binary = binaries()[asked.server]
    chosen = [mutant for mutant in MUTANTS if all(word in mutant.name for word in asked.words)]
    missed = []
    with ProcessPoolExecutor(asked.jobs) as pool:
        futures = [pool.submit(hunt, mutant, binary, asked.seed) for mutant in chosen]
        for mutant, future in zip(chosen, futures, strict=True):
            found = future.result()
            rules = sorted({finding.partition(" ")[0] for finding in found})
            # Where nothing can be acquired at all, the mistake itself was not seen.
            is_caught = bool(set(rules) - {"L-0"})
            missed += [] if is_caught else [mutant.name]
            word = "caught" if mutant.rule in rules else f"caught, but not by {mutant.rule}"
            word = word if is_caught else "MISSED"
            print(f"{word}: {mutant.name}: {', '.join(rules)}", flush=True)
            if asked.verbose:
                print(*found[:3], sep="\n", flush=True)
    print(f"{len(chosen) - len(missed)} of {len(chosen)} mutants caught, seed {asked.seed}")
    for name in missed:
        print(again(f"faultlab mutants {name}", seed=asked.seed, server=asked.server))
    return bool(missed)


def main() -> int:
    """Do what the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser("python -m faultlab", description=__doc__)
    commands = parser.add_subparsers(required=True)
    run = commands.add_parser("run", help="attack the library, and judge what it did")
    run.add_argument("--seconds", type=float, default=30, help="of each arena and server")
    run.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    run.add_argument("--arena", action="append", choices=list(ARENAS), help="default: all")
    run.add_argument("--server", action="append", choices=list(binaries()), help="default: all")
    run.add_argument("--object", action="append", help="default: all that the arena has")
    run.add_argument("--fault", action="append", help="default: all that the arena has")
    run.add_argument("--histories", type=Path, default=Path("histories"), help="where they go")
    run.set_defaults(do=_run)
    short = commands.add_parser("short", help="a minute of it, for CI")
    short.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    short.add_argument("--histories", type=Path, default=Path("histories"))
    short.set_defaults(do=_short)
    check = commands.add_parser("check", help="judge a history again")
    check.add_argument("file", type=Path)
    check.add_argument("--inexact", action="store_true", help="data was lost: judge no counters")
    check.set_defaults(do=_check)
    mutants = commands.add_parser("mutants", help="show that the lab finds deliberate mistakes")
    mutants.add_argument("words", nargs="*", help="only mutants with these words in their names")
    mutants.add_argument("--seed", type=int, default=1)
    mutants.add_argument("--server", choices=list(binaries()), default=next(iter(binaries())))
    mutants.add_argument("--jobs", type=int, default=1, help="how many at the same time")
    mutants.add_argument("--verbose", action="store_true", help="show what was found")
    mutants.set_defaults(do=_mutants)
    asked = parser.parse_args()
    # Who ends the lab politely wants it to clean up.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("ended by SIGTERM"))
    status: int = asked.do(asked)
    return status


if __name__ == "__main__":
    sys.exit(main())
