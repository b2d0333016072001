"""The architecture's rules, read from the source.

How long a function is, who writes what, and which code yields in an exception handler. Which module
may import which is in pyproject.toml, for import-linter.
"""

from __future__ import annotations

import ast
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import interlock
from interlock._core.queue.places import Place, QueueSubscription
from interlock._core.queue.waiter import Waiter

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


def writes_of_a_queue(tree: ast.Module) -> Iterator[str]:
    """Yield what *tree* changes of waiters, places and subscriptions, and in their dicts."""
    fields = {*Waiter.__slots__, *Place.__slots__, *QueueSubscription.__slots__}
    tables = (".queues", ".places")
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and not isinstance(node.ctx, ast.Load):
            if node.attr in fields and ast.unparse(node.value) != "self":
                yield ast.unparse(node)
        elif isinstance(node, ast.Subscript) and not isinstance(node.ctx, ast.Load):
            if ast.unparse(node.value).endswith(tables):
                yield ast.unparse(node)
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            changes = node.func.attr in {"clear", "pop", "popitem", "setdefault", "update"}
            if changes and ast.unparse(node.func.value).endswith(tables):
                yield ast.unparse(node)


def test_only_one_folder_writes_a_waiter_or_a_place() -> None:
    """Others call their methods. An error has a field of the same name."""
    namesakes = {"error.holder"}
    found = {
        (name, written)
        for name in SOURCES
        if not name.startswith("_core/queue/")
        for written in writes_of_a_queue(tree_of(name))
        if written not in namesakes
    }
    assert found == set()


def _only_shortens(node: ast.Try) -> bool:
    """Return whether *node* only drops our frames from what goes on, which the outermost must."""
    told = "\n".join(ast.unparse(line) for each in node.handlers for line in each.body)
    return told == "shorten(error)\nraise" and not node.finalbody


@pytest.mark.parametrize("name", FACES)
def test_a_face_holds_no_logic(name: str) -> None:
    """A face says what is to be done; what happens when that fails stands below, once."""
    decides = {
        function.name
        for function in ast.walk(tree_of(name))
        if isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef)
        for node in ast.walk(function)
        if isinstance(node, ast.Try) and not _only_shortens(node)
    }
    # A permit has no owner. So its release must go on wherever a Ctrl-C strikes. Each function
    # around a `try` is one more place where a permit may be lost.
    # The release of a lock is written out there, as every pair runs it.
    written_out = {"semaphore.py": {"release"}, "lock.py": {"release"}}
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
def test_only_undoing_yields_while_an_exception_flies(name: str) -> None:
    """Clean-up that yields goes through `undoing`: an abandoned operation asks for nothing.

    `go_on` contains a copy of it, because many owners may wait there and each generator is memory.
    """
    doors = {"_core/model/effects.py": {"undoing"}, "_core/locks/lock_base.py": {"go_on"}}

    assert set(yields_while_an_exception_flies(tree_of(name))) == doors.get(name, set())
