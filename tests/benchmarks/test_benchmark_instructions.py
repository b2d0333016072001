"""The count of instructions that guards each object's speed."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest

from benchmarks import instructions

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = {"bare, threads": 100, "interlock, threads": 300, "fair lock, threads": 400}


def test_an_object_that_takes_more_is_named() -> None:
    """Five percent more of the bare limit is told; another build of Python alone is not."""
    assert instructions.slower({name: number * 2 for name, number in KNOWN.items()}, KNOWN) == {}
    assert instructions.slower({**KNOWN, "fair lock, threads": 419}, KNOWN) == {}
    assert instructions.slower({**KNOWN, "fair lock, threads": 421}, KNOWN) == {
        "fair lock, threads": "fair lock, threads: 4.21 times bare, 4.00 in instructions.json"
    }


def test_a_new_object_is_told() -> None:
    """An object that the table does not have fails the check until the table is written anew."""
    [told] = instructions.slower({**KNOWN, "new lock, threads": 1}, KNOWN).values()
    assert told == "new lock, threads: not in instructions.json; run with --update"


def test_the_median_of_several_counts_stands(tmp_path: Path) -> None:
    """What callgrind books to a neighbour, as a thread had its turn, changes no number."""
    for number, total in enumerate((1000, 100, 1900)):
        text = f"desc: Trigger: Client Request: bare, threads\nsummary: {total}\n"
        (tmp_path / f"out.{number}").write_text(text, encoding="utf-8")
    found = instructions.read(sorted(tmp_path.iterdir()))
    assert found == {"bare, threads": 1000 // instructions.PAIRS}


@pytest.mark.parametrize(("again", "failed"), [(410, 0), (430, 1)])
def test_what_one_process_found_slower_is_counted_in_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, again: int, failed: int
) -> None:
    """Only the objects that seem slower are counted again, and their lowest counts stand."""
    asked: list[str] = []

    def count(only: re.Pattern[str]) -> instructions.Counts:
        asked.append(only.pattern)
        return {**KNOWN, "fair lock, threads": again if only.pattern else 450}

    table = tmp_path / "instructions.json"
    table.write_text(json.dumps({"counts": KNOWN}), encoding="utf-8")
    monkeypatch.setattr(instructions, "count", count)
    monkeypatch.setattr(instructions, "TABLE", table)
    assert instructions.run(re.compile(""), update=False, check=True) == failed
    assert asked == ["", *[re.escape("fair lock, threads")] * (1 + failed)]


@pytest.mark.needs("valgrind")
@pytest.mark.timeout(600)
def test_instructions_are_counted() -> None:
    """A pair of the plain lock takes more than the bare one, and every run finds about the same."""
    first, second = (instructions.count(re.compile("^bare, threads")) for _ in range(2))
    for name, number in first.items():
        assert number == pytest.approx(second[name], rel=0.1)
    assert 1 < first["interlock, threads"] / first["bare, threads"] < 10
