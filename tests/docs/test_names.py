"""The page with all public names: they are those that can be imported, and those of --help."""

from __future__ import annotations

import re
from importlib import import_module
from typing import TYPE_CHECKING

import pytest
from tools import make_names
from tools.commands import parsers

from interlock import _pytest_plugin
from interlock.cli import main

if TYPE_CHECKING:
    from collections.abc import Iterable

PAGE = make_names.PAGE.read_text()
EXTRA = {"celery", "django", "fastapi", "otel", "prometheus"}
"""Modules that need a framework; `tests/hosts` and `tests/monitoring` import them."""


def _names_under(title: str) -> set[str]:
    """Return the first word of each line below *title*, but for the lines of members."""
    section = PAGE.split(f"## {title}\n", 1)[1].split("\n## ", 1)[0]
    lines = section.split("```text\n", 1)[1].split("\n```", 1)[0].splitlines()
    return {re.split(r"[.( ]", line, maxsplit=1)[0] for line in lines if line[0] != " "}


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


@pytest.mark.parametrize(
    "face",
    ["interlock.asyncio", pytest.param("interlock.trio", marks=pytest.mark.needs("hosts"))],
)
def test_the_faces_have_the_names_of_the_first(face: str) -> None:
    """What another face exports is on the page as a name of the first one, and can be imported."""
    exported = set(_exported(face))
    assert exported <= _names_under("`interlock`")
    assert all(hasattr(import_module(face), name) for name in exported)
    assert exported == set(_exported("interlock.asyncio"))


def test_the_fixtures_are_on_the_page() -> None:
    """Each fixture of the pytest plugin is on the page."""
    fixtures = {name for name in vars(_pytest_plugin) if name.startswith("interlock_")}
    assert _names_under("pytest") == fixtures


@pytest.mark.parametrize("word", ["", *parsers()])
def test_the_page_has_what_help_prints(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Each word and option that --help tells is on the page, and each on the page is in --help."""
    with pytest.raises(SystemExit):
        main([*word.split(), "--help"])
    told = capsys.readouterr().out
    if not word:
        words = {
            line.split()[0] for line in told.split("COMMAND\n")[1].splitlines() if line.strip()
        }
        assert words >= {each.split()[0] for each in parsers()}
        return
    [line] = re.findall(rf"^interlock {word}  (.*)$", PAGE, re.MULTILINE)
    listed = set(re.findall(r"--?[a-zA-Z][\w-]*", line))
    options = told.split("options:\n")[1].split("exit status")[0]
    rows = re.findall(r"^  (-.*?)(?:  .*)?$", options, re.MULTILINE)
    printed = {each for row in rows for each in re.findall(r"(?<![\w-])--?[a-zA-Z][\w-]*", row)}
    assert listed == printed - {"-h", "--help"}
