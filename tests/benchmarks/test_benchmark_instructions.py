"""The count of instructions that guards each object's speed."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

import pytest

from benchmarks import instructions

if TYPE_CHECKING:
    from pathlib import Path

KNOWN = {"bare, threads": 100, "interlock, threads": 300, "fair lock, threads": 400}


def test_an_object_that_takes_more_is_named() -> None:
    """Five percent more of the bare limit is told; another build of Python alone is not."""
    assert instructions.slower({name: number * 2 for name, number in KNOWN.items()}, KNOWN) == []
    assert instructions.slower({**KNOWN, "fair lock, threads": 419}, KNOWN) == []
    assert instructions.slower({**KNOWN, "fair lock, threads": 421}, KNOWN) == [
        "fair lock, threads: 4.21 times bare, 4.00 in instructions.json"
    ]


def test_a_new_object_is_told() -> None:
    """An object that the table does not have fails the check until the table is written anew."""
    [told] = instructions.slower({**KNOWN, "new lock, threads": 1}, KNOWN)
    assert told == "new lock, threads: not in instructions.json; run with --update"


def test_the_median_of_several_counts_stands(tmp_path: Path) -> None:
    """What callgrind books to a neighbour, as a thread had its turn, changes no number."""
    for number, total in enumerate((1000, 100, 1900)):
        text = f"desc: Trigger: Client Request: bare, threads\nsummary: {total}\n"
        (tmp_path / f"out.{number}").write_text(text, encoding="utf-8")
    found = instructions.read(sorted(tmp_path.iterdir()))
    assert found == {"bare, threads": 1000 // instructions.PAIRS}


@pytest.mark.needs("valgrind")
@pytest.mark.timeout(600)
def test_instructions_are_counted() -> None:
    """A pair of the plain lock takes more than the bare one, and every run finds about the same."""
    first, second = (instructions.count(re.compile("^bare, threads")) for _ in range(2))
    for name, number in first.items():
        assert number == pytest.approx(second[name], rel=0.1)
    assert 1 < first["interlock, threads"] / first["bare, threads"] < 10
