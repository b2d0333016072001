"""Which tests `pytest --quick` runs: some of every part, in under a minute.

The rule: of each test file the first tests, each with its first sets of parameters, and every test
that is marked ``quick``. The files of `SLOW` take no part. So put the main behaviour first in a
test file. The run fails if a source module was not even imported.
"""

from __future__ import annotations

import sys
from collections import Counter
from fnmatch import fnmatch
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

TESTS = 2
"""How many tests of each file."""
SETS = 1
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
    "*_moves.py",
    "*_mutations.py",
    "*_simulated.py",
    "*_sweep.py",
    "*_topologies.py",
    "tests/cli/test_cli_modes.py",
    "tests/cli/test_cli_quorum.py",
    "tests/embedded/test_supervisor.py",
    "tests/testing/test_pytest_plugin.py",
    "tests/testing/test_sim_workload.py",
    "tests/fair/test_fair_exits.py",
    "tests/fair/test_fair_order.py",
    "tests/fair/test_fair_wire.py",
    "tests/links/test_link_signals.py",
    "tests/lock/test_lock_processes.py",
    "tests/test_support/test_wheel.py",
    "tests/cli/test_cli_run_job.py",
    "tests/cli/test_cli_run_loss.py",
    "tests/cli/test_cli_url_file.py",
    "tests/cluster/test_cluster_login.py",
    "tests/cluster/test_cluster_pubsub.py",
    "tests/cluster/test_cluster_tokens.py",
    "tests/cpython/*",
    "tests/fencing/test_fencing_paused_holder.py",
    "tests/links/test_link_acl.py",
    "tests/links/test_link_demoted.py",
    "tests/links/test_link_threads.py",
    "tests/links/test_link_versions.py",
    "tests/monitoring/test_site.py",
    "tests/operations/test_cards.py",
    "tests/operations/test_deadlocks.py",
    "tests/sentinel/test_sentinel_access.py",
)
"""What needs an extra, Java, many processes, or seconds for a single test."""


ELSEWHERE = (
    "interlock.__main__",
    "interlock._drivers.protocol",
    "interlock._pyinstaller*",
    "interlock.celery*",
    "interlock.django",
    "interlock.fastapi*",
    "interlock.rq*",
    "interlock.cli.console",
    "interlock.cli.deadlocks",
    "interlock.cli.doctor",
    "interlock.cli.exporter",
    "interlock.cli.listening",
    "interlock.cli.locks_list",
    "interlock.cli.reading",
    "interlock.cli.release",
    "interlock.cli.show",
    "interlock.cli.top",
    "tests.support.simulator.__main__",
    "interlock.console*",
    "interlock.exporter",
    "interlock.otel",
    "interlock.prometheus",
    "interlock.*trio*",
    "interlock.cli.launch",
    "interlock.*greenlet*",
    "interlock.*redis_py*",
)
"""Modules that need a process or a package of their own, or that only type checkers read.

The former are tested by `tests/cli`, `tests/hosts` and `tests/monitoring`.
"""


def imported() -> set[str]:
    """Return the modules of interlock that this process has imported."""
    return {name for name in sys.modules if name.partition(".")[0] == "interlock"}


def never(seen: set[str]) -> list[str]:
    """Return the source modules that are not among *seen*, but for `ELSEWHERE`."""
    source = ROOT / "src"
    files = (path.relative_to(source).with_suffix("") for path in source.rglob("*.py"))
    names = {".".join(path.parts).removesuffix(".__init__") for path in files}
    return sorted(
        name for name in names - seen if not any(fnmatch(name, pattern) for pattern in ELSEWHERE)
    )


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
