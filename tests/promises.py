"""Which tests hold which promise: ``python -m tests.promises`` prints the list.

A row of docs/promises.md has an id, and a test that holds it the mark ``promise("that id")``.
"""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs/promises.md"


def promised() -> list[str]:
    rows = [line for line in PAGE.read_text().splitlines() if line.startswith("| ")][1:]
    return [row.partition('<span id="')[2].partition('"')[0] for row in rows]


def held() -> dict[str, list[str]]:
    """Return the tests with each id that some test is marked with."""
    found: dict[str, list[str]] = defaultdict(list)
    for file in sorted((ROOT / "tests").rglob("test_*.py")):
        text = file.read_text()
        if re.search(r"mark\.promise\(", text):
            for promise, test in _marked(ast.parse(text)):
                found[promise].append(f"{file.relative_to(ROOT)}::{test}")
    return found


def _marked(module: ast.Module) -> Iterator[tuple[str, str]]:
    for node in module.body:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            for mark in node.decorator_list:
                if isinstance(mark, ast.Call) and ast.unparse(mark.func) == "pytest.mark.promise":
                    yield from ((ast.literal_eval(word), node.name) for word in mark.args)


if __name__ == "__main__":
    tests = held()
    for promise in promised():
        print(promise, *tests.get(promise, ["no test"]), sep="\n  ")
