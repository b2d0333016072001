"""The deliberate mistakes of the fault lab and of tools/must_die.py have their places."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest
from faultlab.mutants import MUTANTS
from tools import must_die

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    "mutant",
    [*MUTANTS, *must_die.MUTANTS],
    ids=lambda mutant: mutant.name.replace(" ", "-"),
)
def test_mutant_is_up_to_date(mutant: Any) -> None:
    """The library has the place that a mutant changes, and the result is still a program."""
    for file, changed in mutant.mistake.changed(ROOT / "src").items():
        source = file.read_text()
        if file.suffix == ".py":
            assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
        else:
            assert changed != source


@pytest.mark.parametrize("number", range(len(must_die.GROUPS)))
def test_group_has_mutants_and_tests(number: int) -> None:
    """Each group has mutants and tests that look for them, or says why it has none yet."""
    group = must_die.GROUPS[number]
    mutants = [each for each in must_die.MUTANTS if each.number == number]
    assert bool(mutants) == bool(group.tests)
    assert mutants or group.left_out
    assert all((ROOT / "tests" / name).exists() for name in group.tests.split())
