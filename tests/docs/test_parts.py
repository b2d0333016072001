"""The two parts of the tests, and the processes that run them."""

from __future__ import annotations

import itertools
from types import SimpleNamespace
from typing import Any

import pytest
from tests.packages import NEEDS, ROOT
from tests.parts import APART, LONG, SETS, WORKERS, first_part, in_order, unit, workers


def _sets(name: str, count: int) -> list[Any]:
    return [_Item(f"tests/test_a.py::{name}[{number}]") for number in range(count)]


class _Item(SimpleNamespace):
    """What the rule looks at of a test, compared by identity."""

    __hash__ = object.__hash__

    def __init__(self, nodeid: str) -> None:
        super().__init__(nodeid=nodeid)


@pytest.mark.parametrize("count", [1, SETS - 1, SETS, SETS + 1, 26, 2710])
def test_the_first_part_is_spread_over_all_sets(count: int) -> None:
    """The first part has the first and the last set of each test, and at most six of them."""
    many, one = _sets("test_many", count), _sets("test_one", 1)
    first = first_part([*many, *one])
    assert len(first) == min(count, SETS) + 1
    assert {many[0], many[-1], one[0]} <= first


@pytest.mark.parametrize(
    ("targets", "processes"),
    [
        ([], 2 * WORKERS),
        (["tests/lock"], 2 * WORKERS),
        (["tests/a.py"], 0),
        (["tests/a.py::test_it"], 0),
        (["tests/a.py", "tests/b.py"], 2),
    ],
)
def test_one_file_runs_in_this_process(targets: list[str], processes: int) -> None:
    """Two cores run four processes for many files, and none for one test or one file."""
    assert workers(targets, 2) == processes


def test_what_needs_a_package_exists() -> None:
    """Each path that cannot be imported without a package is there, so no rename hides it."""
    paths = [path for need in NEEDS.values() for path in need.paths]
    assert paths
    assert [path for path in paths if not (ROOT / path).exists()] == []


def test_long_files_begin_early_and_by_turns() -> None:
    """Every second unit of the queue is long; the tests of a file are together; none is lost."""
    apart, long = APART[0], LONG[0]
    names = [f"tests/test_{letter}.py::test_{number}" for letter in "abc" for number in range(3)]
    names += [
        "tests/test_d.py::test_many",
        f"{long}::test_1",
        f"{apart}::test_1",
        f"{long}::test_2",
    ]
    names += [f"{apart}::test_2[x::y]"]
    items: list[Any] = [_Item(name) for name in names]
    ordered = [item.nodeid for item in in_order(items)]
    assert sorted(ordered) == sorted(names)
    units = [name for name, _ in itertools.groupby(ordered, unit)]
    assert units == [
        *(long, "tests/test_a.py", f"{apart}::test_1", "tests/test_b.py"),
        *(f"{apart}::test_2[x::y]", "tests/test_c.py", "tests/test_d.py"),
    ]


def test_long_files_exist() -> None:
    """Each file that is known to take long is there, and is named once."""
    assert [path for path in (*APART, *LONG) if not (ROOT / path).exists()] == []
    assert len({*APART, *LONG}) == len(APART) + len(LONG)
