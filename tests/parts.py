"""The two parts of the tests: what `python -m pytest` runs, and the rest.

`python -m pytest` without a path is the first part: at most `SETS` sets of parameters of each test.
They are spread evenly over all sets. ``--rest`` runs the other sets, ``--all`` both parts. If you
name a path, all that is there runs.

A process takes one file after the other from a queue. The tests of a file share servers, so they
run in one process, but for the files of `APART`. Every second place in the queue is for a file that
takes long. So most processes wait while others use the processor, and no long test begins last.
"""

from __future__ import annotations

import itertools
from collections import defaultdict
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    import pytest

SETS = 6
"""How many sets of parameters of each test the first part has."""

WORKERS = 3
"""How many processes run tests for each core: most of the time, a test waits."""

APART = (
    "tests/interop/test_interop_conformance.py",
    "tests/benchmarks/test_benchmark_rivals.py",
    "tests/composite/test_red_faults.py",
    "tests/operations/test_deadlocks.py",
    "tests/interop/test_interop_leases.py",
    "tests/interop/test_interop_operations.py",
    "tests/cpython/test_lock_tests.py",
    "tests/benchmarks/test_benchmark_report.py",
    "tests/faults/test_fault_restart.py",
    "tests/benchmarks/test_benchmark_works.py",
    "tests/hosts/test_django.py",
    "tests/hosts/test_frozen.py",
    "tests/hosts/test_fastapi_exit.py",
    "tests/composite/test_composite_crowds.py",
)
"""Files with a few long tests that share nothing costly: any process may take any test."""

LONG = (
    "tests/monitoring/test_site.py",
    "tests/monitoring/test_console.py",
    "tests/hosts/test_redis_py_own.py",
    "tests/interop/test_interop_topologies.py",
    "tests/semaphore/test_semaphore_faults.py",
    "tests/benchmarks/test_benchmark_instructions.py",
    "tests/replicas/test_replicas.py",
    "tests/barrier/test_barrier.py",
    "tests/faults/test_fault_outage.py",
    "tests/sentinel/test_sentinel_failover.py",
    "tests/hosts/test_greenlets.py",
    "tests/interop/test_interop_example.py",
    "tests/interop/test_interop_torture.py",
    "tests/operations/test_cards.py",
    "tests/drivers/test_taking_turns.py",
    "tests/cli/test_cli_modes.py",
    "tests/testing/test_pytest_plugin.py",
    "tests/hosts/test_celery.py",
    "tests/hosts/test_uvloop.py",
    "tests/replicas/test_replicas_topologies.py",
    "tests/embedded/test_supervisor.py",
    "tests/lock/test_lock_close.py",
    "tests/lock/test_lock_wire.py",
    "tests/lock/test_lock_threads.py",
    "tests/benchmarks/test_benchmark_programs.py",
    "tests/benchmarks/test_benchmark_uncontended.py",
    "tests/benchmarks/test_benchmark_delay.py",
    "tests/cluster/test_cluster_moves.py",
    "tests/hosts/test_redis_py.py",
)
"""Other files that take long, the longest first: `python -m tests.causes` tells."""


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


def unit(nodeid: str) -> str:
    """Return what runs in one process: the file of a test, or the test itself."""
    file = nodeid.partition("::")[0]
    return nodeid if file in APART else file


def in_order(items: Iterable[pytest.Item]) -> list[pytest.Item]:
    """Return *items* in the order of the queue: long files by turns with those of many tests."""
    units: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        units[unit(item.nodeid)].append(item)
    ranks = {file: rank for rank, file in enumerate((*LONG[:1], *APART, *LONG[1:]))}
    long = [name for name in units if name.partition("::")[0] in ranks]
    long.sort(key=lambda name: ranks[name.partition("::")[0]])
    others = sorted(units.keys() - long, key=lambda name: (-len(units[name]), name))
    turns = itertools.chain.from_iterable(itertools.zip_longest(long, others))
    return [item for name in turns if name is not None for item in units[name]]


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
