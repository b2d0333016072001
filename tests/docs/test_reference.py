"""The reference renders the docstring of each public name."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SOURCE = ROOT / "src" / "interlock"
PAGES = sorted((ROOT / "docs").rglob("*.md"))
RENDERED = Counter(
    target
    for page in PAGES
    for target in re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
)
NOT_RENDERED = {
    "interlock.__version__": "a string",
    "interlock.inspection.Reader": "reads for `Client.locks`, by connections of this package",
    "interlock.check.examine": "looks for `Client.check`, by connections of this package",
}
MODULES = [
    "interlock",
    "interlock.celery",
    "interlock.check",
    "interlock.django",
    "interlock.errors",
    "interlock.fastapi",
    "interlock.fencing",
    "interlock.inspection",
    "interlock.observe",
    "interlock.otel",
    "interlock.prometheus",
    "interlock.redis_py",
    "interlock.testing",
    "interlock.trio",
]


def public_names(module: str) -> list[str]:
    """Return what *module* offers: its `__all__`, or else its own functions and classes.

    The module is read, not imported: an adapter needs the library that it adapts.
    """
    path = SOURCE.joinpath(*module.split(".")[1:])
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    defined = []
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return list(ast.literal_eval(node.value))
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            defined.append(node.name)
    return [name for name in defined if not name.startswith("_")]


@pytest.mark.parametrize("module", MODULES)
def test_each_public_name_is_rendered_once(module: str) -> None:
    """One page renders the docstring of each public name, alone or with its whole module."""
    names = public_names(module)
    assert names
    errors = public_names("interlock.errors")
    for name in names:
        full = f"{module}.{name}"
        # A page may render a whole module. The package itself shows the errors of another one.
        home = "interlock.errors" if module == "interlock" and name in errors else module
        if full not in MODULES and full not in NOT_RENDERED:
            assert RENDERED[full] + RENDERED[home] == 1, full


def test_each_kind_of_lock_shows_the_signature_of_its_factory() -> None:
    """The page of each object renders the method of the client that makes it."""
    factories = re.findall(r"`client\.(\w+)\(", _family((ROOT / "docs/which.md").read_text()))
    assert len(factories) == 15
    for factory in factories:
        page = (ROOT / f"docs/reference/{factory}.md").read_text(encoding="utf-8")
        assert f"::: interlock.Client.{factory}\n" in page, factory


def _family(page: str) -> str:
    """Return the first column of the tables of all objects."""
    part = page.partition("\n## The family\n")[2]
    return "\n".join(re.findall(r"^\| (`client[^|]*)\|", part, re.MULTILINE))
