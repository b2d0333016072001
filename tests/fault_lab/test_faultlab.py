"""The fault lab's deliberate mistakes have their places, and its checker finds two holders."""

from __future__ import annotations

import ast
import importlib.util
import json
import subprocess
import sys
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


def hold(process: str, start: float, end: float) -> list[dict[str, Any]]:
    """Return what a process writes down that holds the plain lock from *start* to *end*."""
    at, ident = {"p": process, "w": "lane", "o": "plain"}, f"{process}/lane/1"
    how = {"timeout": 5.0, "lease": None}
    return [
        {"t": start, "k": "call", "op": "acquire", "n": 1, **at, **how},
        {"t": start, "k": "ret", "n": 1, "p": process, "value": True},
        {"t": start, "k": "held", "h": ident, "token": None, "lease": None, **at},
        {"t": start, "k": "belief", "h": ident, "p": process},
        {"t": end, "k": "belief", "h": ident, "p": process},
        {"t": end, "k": "call", "op": "release", "n": 2, "h": ident, **at},
        {"t": end, "k": "ret", "n": 2, "p": process, "value": None},
    ]


@pytest.mark.parametrize(
    ("second", "found"), [(hold("b", 3.1, 4), None), (hold("b", 2, 2.5), "L-1 exclusion")]
)
def test_a_history_is_judged(
    second: list[dict[str, Any]], found: str | None, tmp_path: Path
) -> None:
    """Holds that follow each other are right, and two at a time are found."""
    lines = sorted(hold("a", 1, 3) + second, key=lambda line: line["t"])
    history = tmp_path / "history.jsonl"
    history.write_text("".join(json.dumps(line) + "\n" for line in lines))
    command = [sys.executable, "-m", "faultlab", "check", "--inexact", str(history)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == (found is not None), done.stdout + done.stderr
    assert (found or "0 findings") in done.stdout
