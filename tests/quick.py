"""Which tests `pytest --quick` runs: some of every part, in under a minute.

The rule: of each test file the first tests, each with its first sets of parameters, and every test
that is marked ``quick``. The files of `SLOW` take no part. So put the main behaviour first in a
test file. CI checks that these tests cover every source module (`tools/covered.py`).
"""

from __future__ import annotations

from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

TESTS = 2
"""How many tests of each file."""
SETS = 2
"""How many sets of parameters of each test."""

ROOT = Path(__file__).parents[1]
SLOW = (
    "tests/benchmarks/*",
    "tests/hosts/*",
    "tests/typing/*",
    "tests/interop/*",
    "tests/faults/*",
    "*_crowds.py",
    "*_faults.py",
    "*_failover.py",
    "*_mutations.py",
    "*_simulated.py",
    "*_simulation.py",
    "*_sweep.py",
    "*_topologies.py",
    "tests/cli/test_cli_modes.py",
    "tests/cli/test_cli_quorum.py",
    "tests/embedded/test_pytest_plugin.py",
    "tests/fair/test_fair_order.py",
    "tests/joint/test_red_replies.py",
    "tests/lock/test_lock_processes.py",
)
"""What needs an extra, Java, many processes, or seconds for a single test."""


def slow(path: Path) -> bool:
    """Tell whether *path* is one of `SLOW` or in it."""
    return path.is_relative_to(ROOT) and any(
        fnmatch(str(path.relative_to(ROOT)), pattern) for pattern in SLOW
    )


def quick(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return those of *items* that the rule chooses."""
    tests: dict[Path, list[str]] = {}
    sets: Counter[tuple[Path, str]] = Counter()
    chosen = []
    for item in items:
        name = getattr(item, "originalname", None) or item.name
        first = tests.setdefault(item.path, [])
        if name not in first and len(first) < TESTS:
            first.append(name)
        sets[item.path, name] += 1
        early = name in first and sets[item.path, name] <= SETS
        if early or item.get_closest_marker("quick"):
            chosen.append(item)
    return chosen
