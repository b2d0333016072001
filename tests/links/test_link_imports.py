"""The modules of links and drivers import each other without circles."""

from __future__ import annotations

import ast
from graphlib import TopologicalSorter
from pathlib import Path

import interlock

ROOT = Path(interlock.__file__).parent


def test_no_circles() -> None:
    """Each module of the links and drivers imports only modules above it, those for type checking included."""
    names = {
        f"interlock.{package}.{path.stem}": path
        for package in ("_links", "_drivers")
        for path in (ROOT / package).glob("*.py")
    }
    imports: dict[str, set[str]] = {}
    for name, path in names.items():
        found = imports[name] = set()
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.ImportFrom):
                module = node.module or ""
                found.update((module, *(f"{module}.{alias.name}" for alias in node.names)))
        found &= names.keys()
    assert list(TopologicalSorter(imports).static_order())
