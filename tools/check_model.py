"""Check the model of the queue exhaustively, and that each of its mutants fails.

    python tools/check_model.py

The model is tools/model/queue.pml, in Promela. It needs spin and gcc. It is that of the queue in
which every waiter of a lock stands, and is searched with one fault, with a failover, and with one
fault and a client that cannot listen. Exits with 1 when the model breaks a promise, when a mutant
keeps all of them, or when a search was not complete.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL = Path(__file__).parent / "model" / "queue.pml"
MUTANT = re.compile(r"^#define (M_\w+) +\d", re.MULTILINE)
ONE_FAULT = ("FAULTS=1", "TURNS=1")
TWO_TURNS_OF_ONE = ("FAULTS=1", "TURNS=2")
"""The search in which one client comes twice."""
MUTANTS_OF_TWO_TURNS_OF_ONE = ("M_SAME_NUMBER", "M_KEEPS_THE_LOOK", "M_NO_FORGET")
A_FAILOVER = ("FAILOVER=1", "TURNS=1")
"""The search in which nothing goes wrong but that the primary fails."""
MUTANTS_OF_A_FAILOVER = ("M_OTHER_SERVER", "M_NOT_RESENT")
WHO_CANNOT_LISTEN = ("DEAF=1", "FAULTS=1", "TURNS=2")
"""The search in which one client cannot listen."""
MUTANTS_OF_WHO_CANNOT_LISTEN = ("M_DROPS_THE_DEAF", "M_DEAF_SLEEPS")
_SECONDS = 600
_DEPTH = 2_000_000


class Outcome(NamedTuple):
    """What a search came to.

    Attributes:
        states: How many were reached.
        broken: The promise that was broken; empty: all were kept.
        complete: Whether every state was visited.
    """

    states: int
    broken: str
    complete: bool


def search(definitions: Sequence[str], *, optimize: int = 1) -> Outcome:
    """Visit every state of the model, compiled with *definitions*, until a promise is broken."""
    options = [f"-D{definition}" for definition in definitions]
    with tempfile.TemporaryDirectory() as directory:
        where = Path(directory)
        _run(["spin", "-a", *options, str(MODEL)], where)
        flags = [
            f"-O{optimize}",
            "-w",
            "-DSAFETY",
            "-DNOREDUCE",
            "-DVECTORSZ=2048",
            "-DMEMLIM=4000",
        ]
        _run(["gcc", *flags, "-o", "pan", "pan.c"], where)
        said = _run([str(where / "pan"), f"-m{_DEPTH}"], where)
    states = re.search(r"(\d+) states, stored", said)
    errors = re.search(r"errors: (\d+)", said)
    if states is None or errors is None:
        raise RuntimeError(f"the search said nothing of its outcome:\n{said}")
    broken = re.search(r"^pan:\d+: (.+?)(?: \(at depth \d+\))?$", said, re.MULTILINE)
    complete = "Search not completed" not in said and "max search depth too small" not in said
    return Outcome(int(states[1]), broken[1] if broken and int(errors[1]) else "", complete)


def _run(words: list[str], where: Path) -> str:
    done = subprocess.run(
        words, cwd=where, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{words[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def _where(mutant: str) -> Sequence[str]:
    """Return the definitions of the search that finds *mutant*."""
    if mutant in MUTANTS_OF_A_FAILOVER:
        return A_FAILOVER
    if mutant in MUTANTS_OF_WHO_CANNOT_LISTEN:
        return WHO_CANNOT_LISTEN
    return TWO_TURNS_OF_ONE if mutant in MUTANTS_OF_TWO_TURNS_OF_ONE else ONE_FAULT


def main() -> int:
    """Search the model and its mutants; print one line for each."""
    began, failed = time.monotonic(), False
    searches = (
        ("the queue", TWO_TURNS_OF_ONE),
        ("the queue fails over", A_FAILOVER),
        ("one cannot listen", WHO_CANNOT_LISTEN),
    )
    for name, definitions in searches:
        outcome = search(definitions)
        if outcome.broken or not outcome.complete:
            failed = True
        verdict = outcome.broken or ("every promise kept" if outcome.complete else "not complete")
        print(f"{name:22} {outcome.states:>10,} states  {verdict}")
    for mutant in MUTANT.findall(MODEL.read_text(encoding="utf-8")):
        outcome = search([*_where(mutant), f"MUTANT={mutant}"], optimize=0)  # it ends early
        failed = failed or not outcome.broken
        print(f"{mutant:22} {outcome.states:>10,} states  {outcome.broken or 'NOT FOUND'}")
    print(f"{time.monotonic() - began:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
