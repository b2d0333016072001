"""Tests wait for events. A wait for real time is rare, and says why."""

from __future__ import annotations

import re
from pathlib import Path

TESTS = Path(__file__).parents[1]
MOST = 150
SLEEP = re.compile(r"\bsleep\(")
COMMENT = re.compile(r"(#(?! noqa)|//) *\w")


def sleeps() -> list[tuple[str, bool]]:
    """Return each line of the tests that sleeps, and whether it says why, there or just above."""
    found: list[tuple[str, bool]] = []
    for path in sorted(TESTS.rglob("*")):
        if path.suffix not in (".py", ".java"):
            continue
        lines = path.read_text(encoding="utf-8").splitlines()
        for before, line in zip(["", *lines], lines, strict=False):
            if call := SLEEP.search(line):
                told = COMMENT.search(line, call.end()) or COMMENT.match(before.lstrip())
                place = f"{path.relative_to(TESTS)}: {line.strip()}"
                found.append((place, told is not None))
    return found


def test_each_sleep_says_why() -> None:
    """A comment tells which clock, signal or process makes a test wait for real time."""
    assert [place for place, told in sleeps() if not told] == []


def test_there_are_few_sleeps() -> None:
    """Tests wait for events or in virtual time: the number of sleeps cannot grow."""
    assert len(sleeps()) <= MOST


def test_an_unexplained_sleep_is_found() -> None:
    """The search sees a call with another comment than a reason, and one with a reason."""
    call = "time.sleep" + "(1)"
    for line, wanted in (
        (call, False),
        (f"{call}  # noqa: S1", False),
        (f"{call}  # a lease", True),
    ):
        found = SLEEP.search(line)
        assert found
        assert (COMMENT.search(line, found.end()) is not None) is wanted
