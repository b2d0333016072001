"""`interlock run` as its users run it: a process of its own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from typing import TYPE_CHECKING

from tests.support.program import run

if TYPE_CHECKING:
    from pathlib import Path

LONG = 60.0
"""Seconds that nothing here takes: a test that runs into it has failed."""
# Neither an interlock around the test run nor the tester's own shell may affect the tests.
ENVIRON = {
    **{key: value for key, value in os.environ.items() if not key.startswith("INTERLOCK_")},
    "SHELL": "/bin/sh",
}


def interlock(*words: object, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, with *environ* beside what names no server."""
    return run(sys.executable, "-m", "interlock", *words, env={**ENVIRON, **environ})


def until_there(gate: Path) -> str:
    """Return shell code that waits until the file *gate* exists.

    So the test decides when a job ends, however slow the machine is.
    """
    return f"while [ ! -e '{gate}' ]; do sleep 0.05; done"


class Runs:
    """Starts `interlock run` processes, and ends those that a failed test leaves."""

    def __init__(self, url: str) -> None:
        self.url = url
        self._started: list[subprocess.Popen[str]] = []

    def start(self, *arguments: str, **environ: str) -> subprocess.Popen[str]:
        """Start one, in a session of its own."""
        process = subprocess.Popen(
            [sys.executable, "-m", "interlock", "run", *arguments],
            env={**ENVIRON, "INTERLOCK_URL": self.url, **environ},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        self._started.append(process)
        return process

    def started(self, *arguments: str) -> subprocess.Popen[str]:
        """Start one whose job writes a line first, and return when it has."""
        process = self.start(*arguments)
        assert process.stdout is not None
        assert process.stdout.readline() != ""
        return process

    def run(self, *arguments: str, **environ: str) -> tuple[int, str, str]:
        return ended(self.start(*arguments, **environ))

    def close(self) -> None:
        for process in self._started:
            with process:
                if process.poll() is None:
                    os.killpg(process.pid, signal.SIGKILL)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=LONG)
    return process.returncode, out, err
