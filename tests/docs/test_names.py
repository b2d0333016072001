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


def _names_of(module: str) -> set[str]:
    """Return the classes that have a row of *module*, and all names of its own row."""
    classes = re.findall(rf"^\| `{module}\.([A-Z]\w*)[ `]", PAGE, re.MULTILINE)
    [row] = re.findall(rf"^\| `{module}` \| (.*)$", PAGE, re.MULTILINE)
    return {*classes, *re.findall(r"`(\w+)`", row)}


def _exported(module: str) -> Iterable[str]:
    loaded = import_module(module)
    found = {
        name for name, value in vars(loaded).items() if getattr(value, "__module__", "") == module
    }
    return getattr(loaded, "__all__", {name for name in found if not name.startswith("_")})


@pytest.mark.parametrize("module", ["", *sorted(set(make_names.MODULES) - EXTRA)])
def test_what_can_be_imported_is_on_the_page(module: str) -> None:
    """Each name that a module exports is on the page, and no other."""
    full = f"interlock.{module}".rstrip(".")
    assert _names_of(full) == set(_exported(full))
