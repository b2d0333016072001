"""Report the tests that did not run. In CI they are failures.

``INTERLOCK_LATER="bench hosts java"`` names the extras and packages of Debian whose tests CI runs in
a later step. ``--rest`` and ``--extra bench`` are that step: what the first one left out runs
there, and a missing extra is an error.

The tests use all cores by themselves; one test or one file runs in this process: tests/parts.py.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from tests import causes, packages, parts, quick
from tests.extras import FOLDERS, FROM_EXTRA, ROOT, VERSIONS, left_out, missing_versions
from tests.support import again

if TYPE_CHECKING:
    from collections.abc import Generator

_CI = os.environ.get("CI") == "true"
_skipped: list[str] = []
_imported: set[str] = set()
_lacked: set[str] = set()
"""Needs of tests that this run left out: see tests/packages.py."""

# Some machines forbid bytecode beside the sources. Then every process and every program that a test
# starts would compile all modules again: twice the processor time.
if sys.dont_write_bytecode:
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(ROOT / ".pytest_cache" / "bytecode")
    del os.environ["PYTHONDONTWRITEBYTECODE"]
    os.environ["PYTHONPYCACHEPREFIX"] = sys.pycache_prefix

# A shell that starts the tests in the background makes them ignore these signals. Every program
# that the tests start would ignore them too.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
for number in (signal.SIGQUIT, signal.SIGHUP):
    if signal.getsignal(number) is signal.SIG_IGN:
        signal.signal(number, signal.SIG_DFL)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the choices of what to run."""
    group = parser.getgroup("interlock")
    group.addoption(
        "--extra",
        dest="extras",
        action="append",
        default=[],
        choices=[*FOLDERS, "servers"],
        help="run only the tests that need this extra (several times: these extras)",
    )

    group.addoption(
        "--quick", action="store_true", help="run some tests of every part: tests/quick.py"
    )
    group.addoption("--all", action="store_true", help="run all sets of parameters of each test")
    group.addoption(
        "--rest",
        action="store_true",
        help="run what `pytest` alone leaves out, and what needs a Debian package: tests/parts.py",
    )
    group.addoption(
        "--about", metavar="WORDS", help="run the tests whose sentence has all these words"
    )
    group.addoption(
        "--causes", type=Path, help="write to this file where the time goes: tests/causes.py"
    )


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers(config: pytest.Config) -> int:
    """Use all cores, but run one test or one file in this process."""
    named = config.args if config.args_source == config.ArgsSource.ARGS else []
    return parts.workers(named, len(os.sched_getaffinity(0)))


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Give the processes their tests in the order of `tests.parts.in_order`."""
    if config.getoption("dist") != "loadfile":
        return None
    queue: Any = import_module("xdist.scheduler").LoadFileScheduling(config, log)
    queue._split_scope = parts.unit  # noqa: SLF001 - it has no public way
    config.option.loadscopereorder = False
    return queue


def _whole(config: pytest.Config) -> bool:
    """Tell whether the command names no path."""
    return config.args_source != config.ArgsSource.ARGS


def _first(config: pytest.Config) -> bool:
    """Tell whether the first part of the tests is to be run, and no other."""
    if (told := getattr(config, "workerinput", None)) is not None:
        return bool(told["first"])
    chosen = any(map(config.getoption, ("all", "rest", "quick", "extras", "keyword", "about")))
    return _whole(config) and not chosen


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Tell a process of xdist what this one knows from its command."""
    node.workerinput["first"] = _first(node.config)


def pytest_configure(config: pytest.Config) -> None:
    """Refuse to run the tests of an extra without it; begin to measure with --causes."""
    if packages.compiled_from_another_source():
        raise pytest.UsageError("the part in C is of another source: pip install --editable .")
    if file := config.getoption("causes"):
        reports = not hasattr(config, "workerinput")
        config.pluginmanager.register(causes.Causes(file if reports else None))
    for extra in config.getoption("extras"):
        if extra in left_out():
            raise pytest.UsageError(
                f"--extra {extra}: {left_out()[extra]}; pip install --editable '.[{extra}]'"
            )


@pytest.hookimpl(trylast=True)
def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Pass over the folder of a missing extra, and with --quick over what is not quick."""
    if config.getoption("quick") and quick.slow(collection_path):
        return True
    for extra, folder in FOLDERS.items():
        if collection_path.is_relative_to(folder) and extra in left_out():
            return True
    lacking = packages.lacking(collection_path)
    _lacked.update(lacking)
    return True if lacking else None


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the tests of servers that are missing, and with --extra all that need no extra."""
    wanted = set(config.getoption("extras"))
    first = parts.first_part(items)
    kept = [item for item in items if not wanted or _extras(item) & wanted]
    if config.getoption("rest"):
        kept = [
            item for item in items if item not in first or _extras(item) & wanted or _needed(item)
        ]
    elif _first(config):
        kept = [item for item in items if item in first]
    if config.getoption("quick"):
        kept = quick.quick(kept)
    if words := config.getoption("about"):
        kept = [item for item in kept if _is_about(item, words)]
    _lacked.update(*map(_missing, kept))
    away = set(missing_versions())
    remain = {item for item in kept if not _missing(item) and not _versions(item) & away}
    if dropped := [item for item in items if item not in remain]:
        config.hook.pytest_deselected(items=dropped)
        items[:] = [item for item in kept if item in remain]
    if hasattr(config, "workerinput"):
        items[:] = parts.in_order(items)


def _is_about(item: pytest.Item, words: str) -> bool:
    """Tell whether the sentence of a test, or its name, has all *words*."""
    sentence = f"{item.nodeid} {getattr(getattr(item, 'obj', None), '__doc__', '')}".lower()
    return all(word in sentence for word in words.lower().split())


def _versions(item: pytest.Item) -> set[str]:
    """Return the servers that *item* is about."""
    call = getattr(item, "callspec", None)
    return {value for value in call.params.values() if value in VERSIONS} if call else set()


def _missing(item: pytest.Item) -> set[str]:
    """Return what *item* needs and this machine lacks."""
    return _needed(item) & packages.missing()


def _needed(item: pytest.Item) -> set[str]:
    """Return what *item* needs of Debian's packages."""
    needed = packages.needed(item.path)
    needed |= {name for mark in item.iter_markers("needs") for name in mark.args}
    if unknown := needed - set(packages.NEEDS):
        raise pytest.UsageError(f"{item.nodeid} needs {unknown}, which tests/packages.py lacks")
    if "need_java" in getattr(item, "fixturenames", ()):
        needed.add("java")
    return needed


def _extras(item: pytest.Item) -> set[str]:
    """Return the extras that *item* needs."""
    found = {extra for extra, folder in FOLDERS.items() if item.path.is_relative_to(folder)}
    return found | ({"servers"} if _versions(item) & FROM_EXTRA else set())


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
        command = f"python -m pytest {shlex.quote(item.nodeid)}"
        report.sections.append(("to run it again", command))
    return report


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what was skipped."""
    if report.skipped:
        _skipped.append(report.nodeid)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Take over what a process of xdist imported and left out."""
    output = getattr(node, "workeroutput", {})
    _imported.update(output.get("imported", ()))
    _lacked.update(output.get("lacked", ()))


def _not_quick(config: pytest.Config) -> list[str]:
    """Return the modules that a whole run of --quick did not import."""
    if (
        not config.getoption("quick")
        or not _whole(config)
        or config.getoption("ignore")
        or config.getoption("keyword")
    ):
        return []
    return [f"--quick imports no {name}" for name in quick.never(_imported)]


def _wrong() -> list[str]:
    """Return what may not happen in CI and did."""
    later = os.environ.get("INTERLOCK_LATER", "").split()
    wrong = [why for extra, why in left_out().items() if extra not in later]
    wrong += [f"{name} is missing" for name in sorted(_lacked) if name not in later]
    return [*wrong, *(f"skipped {name}" for name in _skipped)] if _CI else []


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in CI that skipped or left out anything, and a quick one that missed a module."""
    _imported.update(quick.imported())
    if (output := getattr(session.config, "workeroutput", None)) is not None:
        output["imported"] = sorted(_imported)
        output["lacked"] = sorted(_lacked)
        return
    if (_wrong() or _not_quick(session.config)) and session.exitstatus == pytest.ExitCode.OK:
        session.exitstatus = pytest.ExitCode.TESTS_FAILED


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Say what was left out, and what of it fails in CI."""
    if left_out():
        extras = ",".join(left_out())
        what = "; ".join(left_out().values())
        terminalreporter.write_line(
            f"left out: {what}; pip install --editable '.[{extras}]'", yellow=True
        )
    if _lacked:
        names = ", ".join(sorted(_lacked))
        install = " ".join(dict.fromkeys(packages.NEEDS[name].package for name in sorted(_lacked)))
        terminalreporter.write_line(
            f"left out: tests that need {names}; apt-get install {install}", yellow=True
        )
    for line in _not_quick(config):
        terminalreporter.write_line(line, red=True)
    if _wrong():
        terminalreporter.write_line(f"fails in CI: {', '.join(_wrong())}", red=True)
