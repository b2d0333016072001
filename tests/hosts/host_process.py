"""The processes of a host, as its users start them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

LONG = 60.0
"""Seconds that nothing here takes."""


class Hosts:
    """Starts processes in a project's directory, and ends those that a test leaves."""

    def __init__(self, directory: Path, url: str) -> None:
        self.directory = directory
        self.environ = {
            **{key: text for key, text in os.environ.items() if not key.startswith("PYTEST_")},
            "INTERLOCK_URL": url,
            "PYTHONUNBUFFERED": "1",
        }
        self._started: list[subprocess.Popen[bytes]] = []

    def start(
        self, *arguments: str, log: str = "host.log", **environ: str
    ) -> subprocess.Popen[bytes]:
        """Start ``python -m`` *arguments* in a session of its own; its output goes to *log*."""
        with (self.directory / log).open("ab") as output:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                cwd=self.directory,
                env={**self.environ, **environ},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self._started.append(process)
        return process

    def log(self, name: str = "host.log") -> str:
        path = self.directory / name
        return path.read_text(errors="replace") if path.exists() else ""

    def close(self) -> None:
        for process in self._started:
            if process.poll() is None:
                process.send_signal(signal.SIGTERM)
        for process in self._started:
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait(LONG)
