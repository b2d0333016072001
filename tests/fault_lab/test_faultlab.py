"""The deliberate mistakes of the fault lab and of tools/must_die.py have their places."""

from __future__ import annotations

import ast
from pathlib import Path

from faultlab.mutants import MUTANTS
from tools import must_die

ROOT = Path(__file__).parents[2]


def test_mutants_are_up_to_date() -> None:
    """The library has the place that each mutant changes, and the result is still a program."""
    for mutant in (*MUTANTS, *must_die.MUTANTS):
        for file, changed in mutant.mistake.changed(ROOT / "src").items():
            source = file.read_text()
            if file.suffix == ".py":
                same = ast.dump(ast.parse(changed)) == ast.dump(ast.parse(source))
            else:
                same = changed == source
            assert not same, mutant.name
