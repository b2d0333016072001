"""Where the time of the tests goes: `pytest --causes FILE` writes one line of JSON for each test.

`python -m tests.causes FILE` sums the lines up. Each test's seconds are divided among:

* ``cpu``: the processor time of the process that runs the test.
* ``servers``: starting and stopping servers, in real time.
* ``programs``: the processor time of programs that the test started and that have ended.
* ``waiting``: what is left, above all sleeps and leases.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections import defaultdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.server import RedisServer

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterable

CAUSES = ("cpu", "servers", "programs", "waiting")
_NAME = "causes"


def _programs() -> float:
    """Return the processor seconds of all children that were waited for."""
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


class Causes:
    """A plugin that divides the time of each test, and writes it in the process that reports."""

    def __init__(self, file: Path | None) -> None:
        self._file = file
        self._servers = 0.0
        self._started: tuple[float, float, float] | None = None
        if file is not None:
            file.write_text("")
        for method in ("start", "kill"):
            setattr(RedisServer, method, self._timed(getattr(RedisServer, method)))

    def _timed(self, method: Callable[..., None]) -> Callable[..., None]:
        def timed(*given: Any, **named: Any) -> None:
            start = time.monotonic()
            try:
                method(*given, **named)
            finally:
                self._servers += time.monotonic() - start

        return timed

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_protocol(self) -> Generator[None, object, object]:
        """Note the time before the test."""
        self._servers = 0.0
        self._started = time.monotonic(), time.process_time(), _programs()
        return (yield)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Add the causes to the last report of the test."""
        report = yield
        if call.when == "teardown" and self._started is not None:
            whole, cpu, programs = (
                now - then
                for now, then in zip(
                    (time.monotonic(), time.process_time(), _programs()), self._started, strict=True
                )
            )
            rest = max(0.0, whole - cpu - self._servers - programs)
            causes = dict(zip(CAUSES, (cpu, self._servers, programs, rest), strict=True))
            report.user_properties.append((_NAME, causes))
        return report

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Write the line of a test that is over."""
        for name, value in report.user_properties:
            if name == _NAME and self._file is not None:
                with self._file.open("a") as file:
                    file.write(json.dumps([report.nodeid, value]) + "\n")


def main(file: str, *, files: int = 25) -> None:
    """Print the sum of each cause, by folder, and the slowest files."""
    folders: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    modules: dict[str, dict[str, float]] = defaultdict(lambda: defaultdict(float))
    for line in Path(file).read_text().splitlines():
        name, causes = json.loads(line)
        path = name.partition("::")[0]
        for cause in CAUSES:
            for sums, key in ((folders, "all"), (folders, str(Path(path).parent)), (modules, path)):
                sums[key][cause] += causes[cause]
        folders["all"]["tests"] += 1
        folders[str(Path(path).parent)]["tests"] += 1
        modules[path]["tests"] += 1
    _print(folders.items())
    _print(sorted(modules.items(), key=_seconds, reverse=True)[:files])


def _seconds(row: tuple[str, dict[str, float]]) -> float:
    return sum(row[1][cause] for cause in CAUSES)


def _print(rows: Iterable[tuple[str, dict[str, float]]]) -> None:
    print(f"{'':45}{'tests':>7}{'seconds':>9}", *(f"{cause:>9}" for cause in CAUSES), sep="")
    for row in sorted(rows, key=_seconds, reverse=True):
        figures = (f"{row[1][cause]:9.1f}" for cause in CAUSES)
        print(f"{row[0]:45}{row[1]['tests']:7.0f}{_seconds(row):9.1f}", *figures, sep="")


if __name__ == "__main__":
    main(sys.argv[1])
