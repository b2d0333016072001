"""Check the model of the queue exhaustively, and that each of its mutants fails.

    python tools/check_model.py

The model is tools/model/queue.pml, in Promela. It needs spin and gcc. It is that of the queue in
which every waiter of a lock stands, and is searched with one fault, with a failover, and with one
fault and a client that cannot listen. Exits with 1 when the model breaks a promise, when a mutant
keeps all of them, or when a search was not complete.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

MODEL = Path(__file__).parent / "model" / "queue.pml"
MUTANT = re.compile(r"^#define (M_\w+) +(\d+)", re.MULTILINE)
SEARCHES = {
    "the queue": ("FAULTS=1 TURNS=2", "M_SAME_NUMBER M_KEEPS_THE_LOOK M_NO_FORGET"),
    "the queue fails over": ("FAILOVER=1 TURNS=1", "M_OTHER_SERVER M_NOT_RESENT"),
    "one cannot listen": ("DEAF=1 FAULTS=1 TURNS=2", "M_DROPS_THE_DEAF M_DEAF_SLEEPS"),
}
"""What each search is compiled with, and the mutants that it finds."""
OF_ALL_OTHERS = "FAULTS=1 TURNS=1"
"""What the search is compiled with that finds all other mutants, a part of the first one."""
_FLAGS = ("-w", "-DSAFETY", "-DNOREDUCE", "-DVECTORSZ=2048", "-DMEMLIM=4000")
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


def compiled(where: Path, definitions: str, *, optimize: int) -> Path:
    """Compile the search of the model with *definitions*, below *where*."""
    _run("spin", "-a", *(f"-D{each}" for each in definitions.split()), str(MODEL), where=where)
    _run("gcc", f"-O{optimize}", *_FLAGS, "-o", "pan", "pan.c", where=where)
    return where / "pan"


def search(pan: Path, mutant: str = "") -> Outcome:
    """Visit every state, with the *mutant* of that number, until a promise is broken."""
    said = _run(str(pan), f"-m{_DEPTH}", where=pan.parent, mutant=mutant)
    states = re.search(r"(\d+) states, stored", said)
    errors = re.search(r"errors: (\d+)", said)
    if states is None or errors is None:
        raise RuntimeError(f"the search said nothing of its outcome:\n{said}")
    broken = re.search(r"^pan:\d+: (.+?)(?: \(at depth \d+\))?$", said, re.MULTILINE)
    complete = "Search not completed" not in said and "max search depth too small" not in said
    return Outcome(int(states[1]), broken[1] if broken and int(errors[1]) else "", complete)


def _run(*words: str, where: Path, mutant: str = "") -> str:
    environ = {**os.environ, "MUTANT": mutant}
    done = subprocess.run(
        words, cwd=where, env=environ, capture_output=True, text=True, timeout=_SECONDS, check=False
    )
    if done.returncode:
        raise RuntimeError(f"{words[0]} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> int:
    """Search the model and its mutants; print one line for each."""
    began, failed = time.monotonic(), False
    numbers = dict(MUTANT.findall(MODEL.read_text(encoding="utf-8")))
    others = numbers.keys() - {each for _, found in SEARCHES.values() for each in found.split()}
    with tempfile.TemporaryDirectory() as directory:
        for name, (definitions, _) in SEARCHES.items():
            outcome = search(compiled(Path(directory), definitions, optimize=1))
            failed = failed or bool(outcome.broken) or not outcome.complete
            kept = "every promise kept" if outcome.complete else "not complete"
            print(f"{name:22} {outcome.states:>10,} states  {outcome.broken or kept}")
        for definitions, found in (*SEARCHES.values(), (OF_ALL_OTHERS, " ".join(sorted(others)))):
            # Not optimized: the search of a mutant ends early.
            pan = compiled(Path(directory), f"{definitions} MUTANTS", optimize=0)
            for mutant in found.split():
                outcome = search(pan, numbers[mutant])
                failed = failed or not outcome.broken
                print(f"{mutant:22} {outcome.states:>10,} states  {outcome.broken or 'NOT FOUND'}")
    print(f"{time.monotonic() - began:.0f} s")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
