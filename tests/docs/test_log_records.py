"""The page of log records and the source tell of the same records."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT = Path(__file__).parents[2]
SOURCE = ROOT / "src" / "interlock"
PAGE = ROOT / "docs" / "reference" / "logs.md"
LEVELS = {"info": "INFO", "warning": "WARNING", "error": "ERROR", "exception": "ERROR"}
PASSED_ON = "<passed on>"
"""In place of an event that a function gets from its caller."""
ROW = re.compile(r"^\| `([\w.]+)` \| ([A-Z, ]+) \| ([^|]+) \| ([^|]+) \| ([^|]+) \|$", re.MULTILINE)


def documented() -> dict[str, set[str]]:
    """Return the levels of each event, as the page has them."""
    return {row[0]: set(row[1].split(", ")) for row in ROW.findall(PAGE.read_text("utf-8"))}


def is_logger(called: ast.expr) -> bool:
    """Return whether a method of *called* logs."""
    return "logger" in ast.unparse(called).casefold()


def values_of(module: ast.Module, name: str) -> Iterator[ast.expr]:
    """Yield what the variable *name* is set to somewhere in a *module*."""
    for node in ast.walk(module):
        if isinstance(node, ast.Assign):
            for target in node.targets:
                if isinstance(target, ast.Name) and target.id == name:
                    yield node.value


def events_of(module: ast.Module, extra: ast.expr) -> set[str]:
    """Return the events that *extra* of a record can name."""
    if isinstance(extra, ast.Name):
        return set().union(*(events_of(module, each) for each in values_of(module, extra.id)))
    if isinstance(extra, ast.BinOp):  # the right side wins
        return events_of(module, extra.right)
    found: set[str] = set()
    if isinstance(extra, ast.Dict):
        for key, value in zip(extra.keys, extra.values, strict=True):
            if isinstance(key, ast.Constant) and key.value == "event":
                if isinstance(value, ast.Name):
                    return {PASSED_ON}
                assert isinstance(value, ast.Constant), ast.unparse(value)
                found.add(str(value.value))
    return found


def logged(path: Path) -> Iterator[tuple[str, str]]:
    """Yield event and level of each record that the module at *path* writes."""
    module = ast.parse(path.read_text("utf-8"))
    for node in ast.walk(module):
        if not isinstance(node, ast.Call):
            continue
        if isinstance(node.func, ast.Attribute) and node.func.attr == "note":
            # `Session.note` passes an event on, which is logged as a warning.
            first = node.args[0] if node.args else None
            if isinstance(first, ast.Constant) and isinstance(first.value, str):
                yield first.value, "WARNING"
        elif isinstance(node.func, ast.Name) and node.func.id == "_log" and len(node.args) > 1:
            level, event = node.args[:2]
            assert isinstance(level, ast.Attribute)
            assert isinstance(event, ast.Constant)
            yield str(event.value), level.attr
        elif isinstance(node.func, ast.Attribute) and is_logger(node.func.value):
            if node.func.attr not in LEVELS:
                continue
            extras = [each.value for each in node.keywords if each.arg == "extra"]
            assert extras, f"{path}:{node.lineno}: a record without an event"
            events = events_of(module, extras[0])
            assert events, f"{path}:{node.lineno}: a record without an event"
            for each in events - {PASSED_ON}:
                yield each, LEVELS[node.func.attr]


def test_each_record_is_documented() -> None:
    """The page has every record of the source with its levels, and no other."""
    found: dict[str, set[str]] = {}
    for path in SOURCE.rglob("*.py"):
        for event, level in logged(path):
            found.setdefault(event, set()).add(level)
    assert documented() == found


def test_each_row_says_what_to_do() -> None:
    """Each record has a meaning, how often it comes, and what to do."""
    for row in ROW.findall(PAGE.read_text("utf-8")):
        assert all(len(cell.strip()) > 3 for cell in row[2:]), row
