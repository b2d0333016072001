"""The tables of the queue's rules are true of scripts, steps, numbers and tests."""

from __future__ import annotations

import re
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

import pytest

from interlock._core.queue import policy
from interlock._core.scripts.source import COUNTS, TIMES
from interlock.inspection.kinds import KINDS

ROOT = Path(__file__).parents[2]
PAGE = ROOT / "docs" / "explanation" / "architecture.md"
CORE = ROOT / "src" / "interlock" / "_core"
LUA = CORE / "lua"
KEEP = {"lock_renew", "lock_set_lease", "lock_query"}
"""Scripts of a plain lock that leave it to its holder."""


class Moment(NamedTuple):
    """A row of the table."""

    what: str
    scripts: list[str]
    steps: list[str]
    knows_queue: str
    passed_by: str
    counted: str
    tests: list[str]


def _rows(head: str) -> list[list[str]]:
    """Return the cells of the table whose first row begins with *head*."""
    table = PAGE.read_text(encoding="utf-8").partition(f"\n| {head} |")[2].partition("\n\n")[0]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table.splitlines()[2:]]


def _moments() -> list[Moment]:
    found: list[Moment] = []
    for what, scripts, steps, queue, passed_by, counted, tests in _rows("moment"):
        quoted = [re.findall("`([^`]+)`", cell) for cell in (scripts, steps, tests)]
        found.append(Moment(what, quoted[0], quoted[1], queue, passed_by, counted, quoted[2]))
    return found


MOMENTS = _moments()
each_moment = pytest.mark.parametrize("moment", MOMENTS, ids=lambda moment: moment.what)


@each_moment
def test_its_scripts_exist(moment: Moment) -> None:
    """Each names a script of the core, parts that it includes, and whether it gets the queue."""
    script, *parts = moment.scripts
    text = (LUA / f"{script}.lua").read_text(encoding="utf-8")
    for part in parts:
        assert f"-- include: {part.removeprefix('parts/')}\n" in text
        assert (LUA / f"{part}.lua").exists()
    named = re.findall(r"^-- +KEYS\[[^\]]+\] .*\bqueue\b", text, re.MULTILINE)
    # An acquire gets the key only with a place: that is its part `reach_depth`.
    given = bool(named) and (bool(parts) or script != "lock_acquire")
    assert moment.knows_queue == ("yes" if given else "no")


@each_moment
def test_its_steps_exist(moment: Moment) -> None:
    """Each names the classes and functions of the core that take the step."""
    assert moment.steps
    for step in moment.steps:
        package, module, *names = step.split(".")
        found: object = import_module(f"interlock._core.{package}.{module}")
        for name in names:
            found = getattr(found, name)
        assert callable(found)


@each_moment
def test_its_tests_exist(moment: Moment) -> None:
    """Each names a test that pins it, and tells whether the simulator counts who is passed by."""
    assert moment.tests
    assert moment.counted in {"yes", "no"}
    for test in moment.tests:
        path, _, name = test.partition("::")
        text = (ROOT / path).read_text(encoding="utf-8")
        assert re.search(rf"^(?:async )?def {name}\(", text, re.MULTILINE)


def test_no_script_is_missing() -> None:
    """The table has all scripts of a plain lock but those that leave it to its holder."""
    uses = KINDS["lock"].uses
    assert uses is not None
    assert {moment.scripts[0] for moment in MOMENTS} == {*uses.scripts} - KEEP | {"lock_renew"}


def test_its_places_and_numbers_exist() -> None:
    """Each question names its files. Each number of the policy is used in one of them."""
    named: set[str] = set()
    for question, places, numbers in _rows("the question"):
        texts = [
            (CORE / path).read_text(encoding="utf-8")
            for path in re.findall(r"`(?:_core/)?(\w+/[\w/]+\.\w+)`", places)
        ]
        assert texts, question
        for number in re.findall(r"`(\w+)`", numbers):
            assert any(number in text for text in texts), number
            named.add(number)
    assert named == {name for name in vars(policy) if name.isupper()} - {"CLAIM", "TYPE_CHECKING"}
    assert named - {"LONGEST_RUN"} == {*TIMES, *COUNTS} - {"CLAIM"}


def test_what_plays_the_rules_exists() -> None:
    """Each group of rules names the tests and models that play it."""
    for rules, *columns in _rows("rules"):
        files = re.findall(r"`(\w[\w/]*\.(?:py|pml))`", " ".join(columns))
        assert files, rules
        assert all((ROOT / file).exists() for file in files)
