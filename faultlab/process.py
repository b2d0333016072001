"""The processes that run programs, and what can befall them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
_END = 60.0
"""Seconds within which a process must end when its time is over."""


class Slot:
    """A process in Python and its successors, which have numbers behind the name of the slot.

    Args:
        name: Of the slot.
        config: For the worker, without name and history.
        home: The directory of histories and logs.
    """

    def __init__(self, name: str, config: dict[str, Any], home: Path) -> None:
        self.name = name
        self.is_stopped = False
        self._resuming: threading.Timer | None = None
        self._config = config
        self._home = home
        self._number = 0
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def present(self) -> str:
        """The name of the present process."""
        return f"{self.name}.{self._number}"

    def start(self) -> None:
        """Start the next process."""
        self._number += 1
        config = {
            **self._config,
            "name": self.present,
            "lab": os.getpid(),
            "history": str(self._home / f"{self.present}.jsonl"),
        }
        # The library of this checkout, unless another one comes first.
        places = [*self._config.get("path", ()), str(ROOT), str(ROOT / "src")]
        with (self._home / f"{self.present}.log").open("wb") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "faultlab.worker", json.dumps(config)],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(places)},
                cwd=self._home,
                process_group=0,
            )

    def wait_for_start(self) -> None:
        """Wait until the process has imported all that it needs.

        Raises:
            RuntimeError: It did not start.
        """
        history, deadline = self._home / f"{self.present}.jsonl", time.monotonic() + _END
        while not history.exists():
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"{self.present} did not start: {self.tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"{self.present} did not start within {_END:.0f} s")
            time.sleep(0.02)

    def kill(self) -> None:
        """End the process with SIGKILL."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        self._forget_stop()

    def stop_for(self, seconds: float) -> None:
        """Stop the process for *seconds*, whatever else takes how long."""
        self._signal(signal.SIGSTOP)
        self.is_stopped = True
        self._resuming = threading.Timer(seconds, self.resume)
        self._resuming.start()

    def resume(self) -> None:
        """Resume the process."""
        self._signal(signal.SIGCONT)
        self._forget_stop()

    def _forget_stop(self) -> None:
        self.is_stopped = False
        if self._resuming is not None:
            self._resuming.cancel()

    def strike(self) -> None:
        """Send the signal whose handler raises."""
        self._signal(signal.SIGUSR1)

    def _signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def finish(self, deadline: float) -> list[str]:
        """Wait for the end of the process; return what is wrong with it, as sentences."""
        process = self._process
        if process is None:
            return []
        try:
            code = process.wait(max(0.1, deadline + _END - time.monotonic()))
        except subprocess.TimeoutExpired:
            self.kill()
            return [f"L-10 ends: {self.present} did not end within {_END:.0f} s of its time"]
        if code:
            return [f"L-10 ends: {self.present} ended with status {code}: {self.tail()}"]
        return []

    def tail(self) -> str:
        """Return the end of its log."""
        return (self._home / f"{self.present}.log").read_text(errors="replace")[-1500:]
