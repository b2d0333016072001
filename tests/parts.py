"""The two parts of the tests: what `python -m pytest` runs, and the rest.

`python -m pytest` without a path is the first part: at most `SETS` sets of parameters of each test.
They are spread evenly over all sets. ``--rest`` runs the other sets, ``--all`` both parts. If you
name a path, all that is there runs.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

SETS = 6
"""How many sets of parameters of each test the first part has."""

WORKERS = 3
"""How many processes run tests for each core: most of the time, a test waits."""


def first_part(items: Iterable[pytest.Item]) -> set[pytest.Item]:
    """Return those of *items* that belong to the first part."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    return {item for sets in tests.values() for item in _spread(sets)}


def _spread(sets: list[pytest.Item]) -> list[pytest.Item]:
    """Return the first and the last of *sets*, and some of those between them."""
    if len(sets) <= SETS:
        return sets
    return [sets[index * (len(sets) - 1) // (SETS - 1)] for index in range(SETS)]


def workers(targets: list[str], cores: int) -> int:
    """Return how many processes are to run *targets*: 0 stands for this process.

    Args:
        targets: What the command names, empty if nothing.
        cores: Of this machine.
    """
    if any("::" in target for target in targets):
        return 0
    if targets and all(target.endswith(".py") for target in targets):
        # The tests of a file run in one process.
        return 0 if len(targets) == 1 else min(len(targets), WORKERS * cores)
    return WORKERS * cores
