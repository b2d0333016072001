"""The command: ``python -m faultlab run``, ``check FILE``, ``mutants``."""

from __future__ import annotations

import argparse
import random
import sys
from pathlib import Path

from interlock.testing.servers import binaries

from .arena import ARENAS
from .history import load
from .judge import Judge
from .run import Plan, Run, report


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
                java=asked.java,
            )
            print(f"--- {arena}, {version}", flush=True)
            outcome = Run(plan).run()
            keep = asked.histories / f"{arena}-{version}-{asked.seed}.jsonl"
            report(plan, outcome, keep)
            wrong += len(outcome.findings)
    print(f"{wrong} findings in all, seed {asked.seed}")
    return bool(wrong)


def _check(asked: argparse.Namespace) -> int:
    findings = Judge(load([asked.file]), exact=not asked.inexact).judge()
    for finding in findings:
        print("FOUND", finding)
    print(f"{len(findings)} findings")
    return bool(findings)


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
    run.add_argument("--java", action="store_true", help="Redisson plays too")
    run.add_argument("--histories", type=Path, default=Path("histories"), help="where they go")
    run.set_defaults(do=_run)
    check = commands.add_parser("check", help="judge a history again")
    check.add_argument("file", type=Path)
    check.add_argument("--inexact", action="store_true", help="data was lost: judge no counters")
    check.set_defaults(do=_check)
    asked = parser.parse_args()
    status: int = asked.do(asked)
    return status


if __name__ == "__main__":
    sys.exit(main())
