"""Check the models of the waiting rooms exhaustively, and that each of their mutants fails.

    python tools/check_model.py [--faults N] [--turns N]

The models are in tools/model, in Promela. They need spin and gcc. `waiting_room.pml` is that of a
lock. There are four searches of it. The first has as many faults as are asked for. In the second a
client may start at once when it hears of its claim. The third has one fault, and a lock that a
release may leave to others. The fourth has one fault, and a fenced lock whose clients may start at
once. `permits.pml` is that of a leased semaphore, with one fault, and one permit or two. Exits with
1 when a model breaks a promise, when a mutant keeps all of them, or when a search was not complete.
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
PERMITS = MODEL.with_name("permits.pml")
ONE_PERMIT = ("PERMITS=1", "FAULTS=1", "TURNS=1")
TWO_PERMITS = ("PERMITS=2", "FAULTS=1", "TURNS=1")
TWICE_A_PERMIT = ("PERMITS=1", "FAULTS=1", "TURNS=2")
"""The search for mistakes with a permit that only the client's next turn shows."""
MUTANTS_OF_TWICE_A_PERMIT = ("M_SAME_ID", "M_ANY_PERMIT")
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


def search(model: Path, definitions: Sequence[str], *, optimize: int = 1) -> Outcome:
    """Visit every state of *model*, compiled with *definitions*, until a promise is broken."""
    options = [f"-D{definition}" for definition in definitions]
    with tempfile.TemporaryDirectory() as directory:
        where = Path(directory)
        _run(["spin", "-a", *options, str(model)], where)
        flags = [
            f"-O{optimize}",
            "-w",
            "-DSAFETY",
            "-DCOLLAPSE",
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


def _where(mutant: str, size: list[str]) -> Sequence[str]:
    """Return the definitions of the search that finds *mutant*."""
    if mutant in MUTANTS_OF_OTHERS:
        return WITH_OTHERS
    if mutant in MUTANTS_OF_FENCED:
        return FENCED
    if mutant in MUTANTS_OF_TWO_TURNS:
        return TWO_TURNS
    return [*size, "DIRECT"] if mutant in MUTANTS_OF_DIRECT else size


def _where_of_permits(mutant: str, _: list[str]) -> Sequence[str]:
    """Return the definitions of the search that finds *mutant* of the permits' model."""
    return TWICE_A_PERMIT if mutant in MUTANTS_OF_TWICE_A_PERMIT else ONE_PERMIT


def main(words: Sequence[str] | None = None) -> int:
    """Search the models and their mutants; print one line for each."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--faults", type=int, default=2, help="faults in one run; default: 2")
    parser.add_argument("--turns", type=int, default=1, help="turns of each client; default: 1")
    asked = parser.parse_args(words)
    size = [f"FAULTS={asked.faults}", f"TURNS={asked.turns}"]
    began, failed = time.monotonic(), False
    direct = [*size, "DIRECT"]
    searches = (
        ("the model", MODEL, size),
        ("a client starts at once", MODEL, direct),
        ("a lock left to others", MODEL, WITH_OTHERS),
        ("a lock with tokens", MODEL, FENCED),
        ("one permit", PERMITS, ONE_PERMIT),
        ("two permits", PERMITS, TWO_PERMITS),
    )
    for name, model, definitions in searches:
        outcome = search(model, definitions)
        if outcome.broken or not outcome.complete:
            failed = True
        verdict = outcome.broken or ("every promise kept" if outcome.complete else "not complete")
        print(f"{name:22} {outcome.states:>10,} states  {verdict}")
    for model, where in ((MODEL, _where), (PERMITS, _where_of_permits)):
        for mutant in dict.fromkeys(MUTANT.findall(model.read_text(encoding="utf-8"))):
            outcome = search(model, [*where(mutant, size), mutant], optimize=0)  # it ends early
            failed = failed or not outcome.broken
            print(f"{mutant:22} {outcome.states:>10,} states  {outcome.broken or 'NOT FOUND'}")
    print(f"{time.monotonic() - began:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
