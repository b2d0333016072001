"""Check the model of the waiting room exhaustively, and that each of its mutants fails.

    python tools/check_model.py [--faults N] [--turns N]

The model is tools/model/waiting_room.pml, in Promela. It needs spin and gcc. There are four
searches. The first has as many faults as are asked for. In the second a client may start at once
when it hears of its claim. The third has one fault, and a lock that a release may leave to others.
The fourth has one fault, and a fenced lock whose clients may start at once. Exits with 1 when the
model breaks a promise, when a mutant keeps all of them, or when a search was not complete.
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

MODEL = Path(__file__).parent / "model" / "waiting_room.pml"
MUTANT = re.compile(r"^#if(?:n?def) (M_\w+)", re.MULTILINE)
WITH_OTHERS = ("OTHERS", "FAULTS=1", "TURNS=1")
"""The smaller search of a lock that a release may leave to others."""
MUTANTS_OF_OTHERS = ("M_LEFT_AGAIN",)
MUTANTS_OF_DIRECT = ("M_TRUST_THE_MESSAGE", "M_SAME_NUMBER", "M_LONG_CLAIM")
"""Mistakes of a client that starts at once."""
TWO_TURNS = ("DIRECT", "FAULTS=1", "TURNS=2")
"""The search for mistakes that only a client's next turn shows."""
MUTANTS_OF_TWO_TURNS = ("M_STALE_MESSAGE",)
FENCED = ("DIRECT", "FENCED", "FAULTS=1", "TURNS=1")
"""The smaller search of a lock whose holds have tokens."""
MUTANTS_OF_FENCED = ("M_LAST_TOKEN", "M_NO_TOKEN")
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


def search(definitions: Sequence[str]) -> Outcome:
    """Visit every state of the model, compiled with *definitions*."""
    options = [f"-D{definition}" for definition in definitions]
    with tempfile.TemporaryDirectory() as directory:
        where = Path(directory)
        _run(["spin", "-a", *options, str(MODEL)], where)
        flags = ["-O1", "-w", "-DSAFETY", "-DCOLLAPSE", "-DVECTORSZ=2048", "-DMEMLIM=4000"]
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


def _where(mutant: str, size: list[str]) -> Sequence[str]:
    """Return the definitions of the search that finds *mutant*."""
    if mutant in MUTANTS_OF_OTHERS:
        return WITH_OTHERS
    if mutant in MUTANTS_OF_FENCED:
        return FENCED
    if mutant in MUTANTS_OF_TWO_TURNS:
        return TWO_TURNS
    return [*size, "DIRECT"] if mutant in MUTANTS_OF_DIRECT else size


def main(words: Sequence[str] | None = None) -> int:
    """Search the model and its mutants; print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=2, help="faults in one run; default: 2")
    parser.add_argument("--turns", type=int, default=1, help="turns of each client; default: 1")
    asked = parser.parse_args(words)
    size = [f"FAULTS={asked.faults}", f"TURNS={asked.turns}"]
    began, failed = time.monotonic(), False
    direct = [*size, "DIRECT"]
    searches = (
        ("the model", size),
        ("a client starts at once", direct),
        ("a lock left to others", WITH_OTHERS),
        ("a lock with tokens", FENCED),
    )
    for name, definitions in searches:
        outcome = search(definitions)
        if outcome.broken or not outcome.complete:
            failed = True
        verdict = outcome.broken or ("every promise kept" if outcome.complete else "not complete")
        print(f"{name:22} {outcome.states:>10,} states  {verdict}")
    for mutant in dict.fromkeys(MUTANT.findall(MODEL.read_text(encoding="utf-8"))):
        outcome = search([*_where(mutant, size), mutant])
        failed = failed or not outcome.broken
        print(f"{mutant:22} {outcome.states:>10,} states  {outcome.broken or 'NOT FOUND'}")
    print(f"{time.monotonic() - began:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
