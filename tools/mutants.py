"""Show which tests find the mistakes of `must_die`, each made in a copy of the package.

    python -m tools.mutants                        every mistake, by the tests of its group
    python -m tools.mutants --only 12,15           of some groups
    python -m tools.mutants --tests tests/links    by these tests alone
    python -m tools.mutants --list                 what would be changed

A test that fails for a mistake, and passes without it, has found it. Exit status 1: one survived.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from tools.must_die import GROUPS, MUTANTS

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tools.must_die import Mutant

ROOT = Path(__file__).resolve().parents[1]
SOURCES = ROOT / "src"
TIMEOUT = 3600.0
"""Seconds for all tests of one mistake. A test that hangs fails by itself long before."""
_FAILED = re.compile(r"^(?:FAILED|ERROR) (tests/.+?)(?: - .*)?$", re.MULTILINE)
_STARTED = re.compile(r"^(tests/\S+::.*?) ?$", re.MULTILINE)


def first_failure(sources: Path, tests: Sequence[str]) -> str:
    """Return the first of *tests* that fails with the package in *sources*; empty if none does."""
    command = [sys.executable, "-m", "pytest", "-x", "-v", "-n", "0", "-p", "no:cacheprovider"]
    command += ["-m", "not (rest and pairs)"]  # what CI runs
    environment = {**os.environ, "PYTHONPATH": str(sources), "CI": ""}
    try:
        done = subprocess.run(
            [*command, *tests],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=TIMEOUT,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        # In spite of `text`, these are bytes.
        begun = _STARTED.findall(str(error.stdout or b"", "utf-8", "replace"))
        return f"{begun[-1] if begun else tests[0]} (it hangs)"
    if done.returncode in (0, 5):
        return ""
    found = _FAILED.findall(done.stdout)
    return found[0] if found else f"{' '.join(tests)} (exit status {done.returncode})"


def verdict(mutant: Mutant, tests: Sequence[str]) -> str:
    """Return what becomes of *mutant*, which *tests* are to find."""
    asked = tests or GROUPS[mutant.number].files
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="interlock-mutant-") as place:
        mutant.mistake.make(SOURCES, Path(place))
        found = first_failure(Path(place), asked)
    seconds = time.monotonic() - began
    if not found:
        return f"survived for {seconds:.0f} s"
    if " (" not in found and first_failure(SOURCES, [found]):
        return f"unknown: {found} fails without it, too"
    return f"found by {found} after {seconds:.0f} s"


def told(verdict_of: str, mutant: Mutant) -> bool:
    """Print *verdict_of* for *mutant*; return whether it was found."""
    print(f"{mutant.number:2} {mutant.name}: {verdict_of}", flush=True)
    return verdict_of.startswith("found")


def main() -> int:
    """Make the mistakes that the command line asks for; return the exit status."""
    parser = argparse.ArgumentParser("python -m tools.mutants", description=__doc__)
    parser.add_argument("--only", help="numbers of groups, with commas")
    parser.add_argument("--name", default="", help="only mistakes with this in their names")
    parser.add_argument("--tests", nargs="+", default=[], help="in place of each group's own")
    parser.add_argument("--jobs", type=int, default=1, help="how many at the same time")
    parser.add_argument("--list", action="store_true", help="only tell what would be changed")
    asked = parser.parse_args()
    numbers = {int(each) for each in asked.only.split(",")} if asked.only else set(GROUPS)
    chosen = [each for each in MUTANTS if each.number in numbers and asked.name in each.name]
    if asked.list:
        for number in sorted(numbers):
            print(f"{number:2} {GROUPS[number].what}")
            for mutant in chosen:
                if mutant.number == number:
                    print(f"     {mutant.name}: {mutant.mistake.where}")
        return 0
    with ThreadPoolExecutor(asked.jobs) as pool:
        verdicts = pool.map(partial(verdict, tests=asked.tests), chosen)
        found = sum(told(each, mutant) for each, mutant in zip(verdicts, chosen, strict=True))
    print(f"found {found} of {len(chosen)}")
    return 0 if found == len(chosen) else 1


if __name__ == "__main__":
    raise SystemExit(main())
