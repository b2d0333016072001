"""The architecture's rules, read from the source.

How long a function is, and which code yields in an exception handler. Which module
may import which is in pyproject.toml, for import-linter.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import interlock

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(interlock.__file__).parent
SOURCES = {str(path.relative_to(ROOT)): path for path in sorted(ROOT.rglob("*.py"))}
CORE = [name for name in SOURCES if name.startswith("_core/")]
FACES = [
    name
    for name in SOURCES
    if name.startswith(("asyncio/", "sync/")) and not name.endswith("redis_py.py")
]
"""All but redis-py's Lock, which turns errors of ours into those of redis-py."""


LONGEST = 60
"""Lines of a function, with its documentation."""

LONGEST_CLASS = 400
"""Lines of a class, with its documentation."""
LONG_CLASSES = {"Client"}
"""Classes that may be longer: a client has all factories of its users, and nothing else."""


def tree_of(name: str) -> ast.Module:
    """Return the parsed source of a file."""
    return ast.parse(SOURCES[name].read_text(), name)


@pytest.mark.parametrize("name", SOURCES)
def test_no_function_is_too_long(name: str) -> None:
    """A function fits on one screen; an algorithm may fill one file, from top to bottom."""
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            assert (node.end_lineno or 0) - node.lineno < LONGEST, node.name


@pytest.mark.parametrize("name", SOURCES)
def test_no_class_has_several_jobs(name: str) -> None:
    """A class has at most `LONGEST_CLASS` lines; `LONG_CLASSES` are exceptions."""
    for node in ast.walk(tree_of(name)):
        if isinstance(node, ast.ClassDef):
            lines = (node.end_lineno or 0) - node.lineno + 1
            too_long = lines > LONGEST_CLASS and node.name not in LONG_CLASSES
            assert not too_long, f"{node.name} has {lines} lines"


def _only_shortens(node: ast.Try) -> bool:
    """Return whether *node* only gives its step up and drops our frames, as an outermost one must."""
    told = "\n".join(ast.unparse(line) for each in node.handlers for line in each.body)
    allowed = {
        f"{first}{then}raise"
        for first in ("", "give_up(step)\n")
        for then in ("", "shorten(error)\n")
    }
    return told in allowed - {"raise"} and not node.finalbody


@pytest.mark.parametrize(
    "name",
    [name for name in FACES if Path(name).name not in {"lock.py", "semaphore.py"}],
)
def test_a_face_holds_no_logic(name: str) -> None:
    """A face says what is to be done; what happens when that fails stands below, once.

    The face itself is the outermost frame, where each step gives up.
    """
    decides = {
        function.name
        for function in ast.walk(tree_of(name))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Try) and not _only_shortens(node)
    }
    # That of a condition is written out there.
    written_out = {"condition.py": {"_wait"}}
    outermost = written_out.get(Path(name).name, set())
    assert decides == outermost, "move it to _drivers/awaited.py"


@pytest.mark.parametrize("name", CORE)
def test_methods_stand_in_their_class(name: str) -> None:
    """No function outside of a class is a method in disguise, which would hide a long class."""
    for node in tree_of(name).body:
        if isinstance(node, ast.FunctionDef):
            assert [argument.arg for argument in node.args.args][:1] != ["self"], node.name


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
def test_nothing_yields_while_an_exception_flies(name: str) -> None:
    """An abandoned operation asks for nothing: what is to be cleaned up is left to the upkeep."""
    assert list(yields_while_an_exception_flies(tree_of(name))) == []
