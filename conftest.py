"""In CI a test that was skipped is a failure: what was not run was not tested. And Ctrl-C works however the tests were started."""

from __future__ import annotations

import os
import signal
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

_skipped: list[str] = []

# A shell that starts the tests in the background has them ignore these, and so would every program that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGQUIT) is signal.SIG_IGN:
    signal.signal(signal.SIGQUIT, signal.SIG_DFL)


def pytest_runtest_logreport(report: pytest.TestReport) -> None:
    """Note what was skipped."""
    if report.skipped:
        _skipped.append(report.nodeid)


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Fail a run in CI that skipped anything."""
    if _skipped and os.environ.get("CI") == "true":
        session.exitstatus = 1


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say why."""
    if _skipped and os.environ.get("CI") == "true":
        terminalreporter.write_line(f"skipped, which fails in CI: {', '.join(_skipped)}", red=True)
