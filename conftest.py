"""Which tests run, and what a failure shows.

`pytest` runs the first part of the tests: at most `SETS` sets of parameters of each. The others
have the mark ``rest``, and those of them that CI leaves out the mark ``pairs``; `pytest -m ""` runs
everything. What a test needs beyond the extra `dev` is its mark ``needs``: see tests/needs.py.

With ``CI=true`` a test that is skipped or left out is a failure, unless ``INTERLOCK_LATER="java
hosts"`` names what it needs: CI runs it in a later step.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pytest
from tests import needs
from tests.objects.kinds import KINDS
from tests.objects.worlds import WORLDS
from tests.support import again

if TYPE_CHECKING:
    from collections.abc import Generator
    from pathlib import Path

SETS = 6
"""How many sets of parameters of each test the first part has."""
WORKERS = 3
"""How many processes run tests for each core: most of the time, a test waits."""

_CI = os.environ.get("CI") == "true"
_KINDS, _WORLDS = [kind.name for kind in KINDS], [*WORLDS]
_skipped: list[str] = []
_lacked: set[str] = set()
"""Needs of tests that this run left out."""

# Some machines forbid bytecode beside the sources. Then every process and every program that a test
# starts would compile all modules again: twice the processor time.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(needs.ROOT / ".pytest_cache" / "bytecode")
    del os.environ["PYTHONDONTWRITEBYTECODE"]
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

# A shell that starts the tests in the background makes them ignore these signals. Every program
# that the tests start would ignore them too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use all cores, but run one test or one file in this process, where a debugger works."""
    named = config.args if config.args_source == config.ArgsSource.ARGS else []
    if any("::" in name for name in named) or (len(named) == 1 and named[0].endswith(".py")):
        return 0
    return WORKERS * len(os.sched_getaffinity(0))


def pytest_addoption(parser: pytest.Parser) -> None:
    """Let the suite of tests/objects be played elsewhere."""
    parser.addoption("--on", default="single", help="single, cluster, sentinel or tls")


def pytest_configure(config: pytest.Config) -> None:
    """Refuse a part in C that is not what its source says."""
    del config
    if needs.compiled_from_another_source():
        raise pytest.UsageError("the part in C is of another source: pip install --editable .")


@pytest.hookimpl(trylast=True)
def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Pass over files that cannot be imported here."""
    lacking = needs.of_path(collection_path) & needs.missing()
    _lacked.update(lacking)
    return True if lacking else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Mark the tests of the rest and those with needs, and leave out those that lack some."""
    kept: dict[pytest.Item, None] = {}
    for item in items:
        if "function" in vars(type(item)) and not item.function.__doc__:
            raise pytest.UsageError(f"{item.nodeid} says nothing of what it guarantees")
        needed = needs.of_test(item)
        if needed - needs.WITH_DEV:
            item.add_marker(pytest.mark.needs(*needed))
        if lacking := needed & needs.missing():
            _lacked.update(lacking)
        else:
            kept[item] = None
    for item in _rest([*kept]):
        item.add_marker("rest")
    for item in filter(_is_further_pair, kept):
        item.add_marker("pairs")
    if dropped := [item for item in items if item not in kept]:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [*kept]


def _rest(items: list[pytest.Item]) -> list[pytest.Item]:
    """Return what is not in the first part: it has sets from all over each test's."""
    tests: dict[str, list[pytest.Item]] = defaultdict(list)
    for item in items:
        tests[item.nodeid.partition("[")[0]].append(item)
    rest: list[pytest.Item] = []
    for sets in tests.values():
        first = {index * (len(sets) - 1) // (SETS - 1) for index in range(SETS)}
        rest += [item for index, item in enumerate(sets) if len(sets) > SETS and index not in first]
    return rest


def _is_further_pair(item: pytest.Item) -> bool:
    """Return whether *item* plays another pair of a lock-like and a world than CI does.

    CI plays each test with each lock-like, in one of the worlds by turns, and with the plain lock in
    each world.
    """
    given = getattr(getattr(item, "callspec", None), "params", {})
    kind, world = getattr(given.get("kind"), "name", ""), given.get("world", "")
    if kind not in _KINDS or world not in _WORLDS or kind == "lock":
        return False
    turn = _KINDS.index(kind) + sum(item.nodeid.partition("[")[0].encode())
    return bool(world != _WORLDS[turn % len(_WORLDS)])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add to a failure its seed, what its servers logged, and the command that runs it again."""
    report = yield
    if report.failed:
        if call.excinfo is not None and (drawn := [*again.chances(call.excinfo.value)]):
            report.sections.append(("seeds and schedules", "\n".join(drawn)))
        for place, log in again.logs(getattr(item, "funcargs", {})):
            report.sections.append((f"log of the fixture {place}", log))
        command = f"python -m pytest -m '' {shlex.quote(item.nodeid)}"
        report.sections.append(("to run it again", command))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what was skipped."""
    if report.skipped:
        _skipped.append(report.nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of xdist left out."""
    _lacked.update(getattr(node, "workeroutput", {}).get("lacked", ()))


def _wrong() -> list[str]:
    """Return what may not happen in CI and did."""
    later = os.environ.get("INTERLOCK_LATER", "").split()
    lacked = [f"{name} is missing" for name in sorted(_lacked) if name not in later]
    return [*lacked, *(f"skipped {name}" for name in _skipped)] if _CI else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in CI that skipped or left out anything."""
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["lacked"] = sorted(_lacked)
    elif _wrong() and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say what was left out, how to get it, and what of it fails in CI."""
    if _lacked:
        names = ", ".join(sorted(_lacked))
        terminalreporter.write_line(f"left out: tests that need {names}", yellow=True)
        for how in sorted({needs.NEEDS[name].how for name in _lacked}):
            terminalreporter.write_line(f"  {how}", yellow=True)
    if _wrong():
        terminalreporter.write_line(f"fails in CI: {', '.join(_wrong())}", red=True)
