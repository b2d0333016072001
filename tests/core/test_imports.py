"""The architecture's laws, read from the source: who imports whom, how long a file is, and who may yield while an exception flies."""

from __future__ import annotations

import ast
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import interlock

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(interlock.__file__).parent
SOURCES = {str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*.py"))}
CORE = [name for name in SOURCES if name.startswith("_core/")]
LONGEST = 60
"""Lines of a function, with its documentation."""

IMPURE = {"asyncio", "threading", "time", "socket", "random", "logging", "selectors", "subprocess"}
"""What would give the core a thread, a clock, a network, chance or a voice of its own."""

MAY_IMPORT = {
    "_core": {"_core", "errors", "options", "backoff"},
    "_embedded": {"_embedded", "errors"},
    "_links": {"_links", "_embedded", "_core", "_misuse", "errors", "options"},
    "check": {"check", "_links", "_core", "errors", "options"},
    "_drivers": {
        "inspection",
        "_drivers",
        "_links",
        "_core",
        "_misuse",
        "_version",
        "errors",
        "options",
    },
    "_misuse": {"errors"},
    "inspection": {"inspection", "_links", "_core", "errors", "options"},
    "testing": {"testing", "_embedded", "_core", "errors", "options", "backoff"},
}
"""What of the package each part may import; the faces may import everything, and nothing imports a face."""


def tree_of(name: str) -> ast.Module:
    """Return the parsed source of a file."""
    return ast.parse(SOURCES[name].read_text(encoding="utf-8"), name)


def imports(name: str) -> Iterator[str]:
    """Yield every module that a file imports, those for type checking and inside of functions too."""
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            assert node.module is not None
            yield from (f"{node.module}.{alias.name}" for alias in node.names)


def part_of(module: str) -> str:
    """Return the part of the package that a module belongs to."""
    return [*module.split("."), ""][1]


@pytest.mark.parametrize("part", MAY_IMPORT)
def test_imports_go_one_way(part: str) -> None:
    """Each part imports only the parts below it."""
    for name in SOURCES:
        if name.startswith((f"{part}/", f"{part}.py")):
            used = {part_of(module) for module in imports(name) if module.startswith("interlock.")}
            assert used <= MAY_IMPORT[part], name


@pytest.mark.parametrize("name", CORE)
def test_core_is_pure(name: str) -> None:
    """The core imports nothing but the standard library, and nothing of it that does I/O, waits, or is left to chance."""
    for module in imports(name):
        top = module.split(".")[0]
        assert top == "interlock" or top in sys.stdlib_module_names, name
        assert top not in IMPURE, name


@pytest.mark.parametrize("name", SOURCES)
def test_no_function_is_too_long(name: str) -> None:
    """A function fits on one screen; an algorithm may be as long as it needs, in one file, from top to bottom."""
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < LONGEST, node.name


def yields_while_an_exception_flies(tree: ast.Module) -> Iterator[str]:
    """Yield the functions that yield in an ``except`` or ``finally``."""
    for function in ast.walk(tree):
        if not isinstance(function, ast.FunctionDef):
            continue
        for node in ast.walk(function):
            if not isinstance(node, ast.Try):
                continue
            cleaning = [*node.finalbody, *(line for h in node.handlers for line in h.body)]
            for line in cleaning:
                if any(isinstance(inner, ast.Yield | ast.YieldFrom) for inner in ast.walk(line)):
                    yield function.name


@pytest.mark.parametrize("name", CORE)
def test_only_undoing_yields_while_an_exception_flies(name: str) -> None:
    """Clean-up that needs the world has one door, which keeps abandoned operations from asking for anything.

    And a copy of it, where waiters are many and each generator is memory that they keep.
    """
    doors = {"_core/effects.py": {"undoing"}, "_core/lock_base.py": {"go_on"}}

    assert set(yields_while_an_exception_flies(tree_of(name))) == doors.get(name, set())
