"""The page with all public names: they are those that can be imported."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from tools import make_names

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = make_names.PAGE.read_text()
EXTRA = {"celery", "django", "fastapi", "otel", "prometheus"}
"""Modules that need a framework; `tests/hosts` and `tests/monitoring` import them."""


def _names_under(title: str) -> set[str]:
    """Return the first word of each row below *title*, and all names of its last line."""
    section = PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    rows = re.findall(r"^\| `(\w+)", section, re.MULTILINE)
    last = section.strip().rpartition("\n")[2]
    return {*rows, *(re.findall(r"`(\w+)", last) if last[0] == "`" else ())}


def _exported(module: str) -> Iterable[str]:
    loaded = import_module(module)
    found = {
        name for name, value in vars(loaded).items() if getattr(value, "__module__", "") == module
    }
    return getattr(loaded, "__all__", {name for name in found if not name.startswith("_")})


def test_the_page_is_made_from_the_source() -> None:
    """Whoever changes a public name runs `python -m tools.make_names`."""
    assert make_names.page() == PAGE


@pytest.mark.parametrize("module", ["", *sorted(make_names.MODULES.keys() - EXTRA)])
def test_what_can_be_imported_is_on_the_page(module: str) -> None:
    """Each name that a module exports is on the page, and no other."""
    full = f"interlock.{module}".rstrip(".")
    assert _names_under(f"`{full}`") == set(_exported(full))
