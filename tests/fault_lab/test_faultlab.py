"""The deliberate mistakes of the fault lab and of tools/mutants.py have their places."""

from __future__ import annotations

import ast
import importlib.util
from pathlib import Path
from typing import Any

import pytest
from faultlab.mutants import MUTANTS

ROOT = Path(__file__).parents[2]
SOURCES = ROOT / "src" / "interlock"


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.name.replace(" ", "-"))
def test_mutant_is_up_to_date(mutant: Any) -> None:
    """The library has the place that a mutant changes, and the result is still a program."""
    source = (SOURCES / mutant.mistake.file).read_text()
    changed = mutant.mistake.made(source)
    if mutant.mistake.file.endswith(".py"):
        assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(source))
    else:
        assert changed != source


def test_the_functions_of_the_small_mutants_exist() -> None:
    """Each function that tools/mutants.py changes is in its module, and has something to change."""
    spec = importlib.util.spec_from_file_location("mutants", ROOT / "tools" / "mutants.py")
    assert spec
    assert spec.loader
    mutants = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(mutants)
    for name, functions in mutants.TARGETS.items():
        tree = ast.parse((ROOT / "src" / mutants.CORE / name).read_text())
        defined = {node.name for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)}
        assert set(functions) <= defined, name
