"""Where and with what a benchmark ran: figures without it mean little."""

from __future__ import annotations

import os
import platform
import subprocess
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from interlock._links.exchange import COMPILED

_ROOT = Path(__file__).parents[1]


@dataclass(frozen=True, slots=True)
class Environment:
    """The facts, as of the start of a run.

    Attributes:
        started: Time of day, UTC, ISO 8601.
        system: Operating system, release and architecture.
        processor: The processor's name, as far as the system tells it.
        cpus: Logical processors; server and clients share them.
        load: The load average of the last minute: above nought, somebody else was at work.
        python: Implementation and version.
        compiled: Whether interlock has its part in C.
        commit: The checked-out commit, with "+" when files differ from it; None outside git.
    """

    started: str
    system: str
    processor: str
    cpus: int
    load: float
    python: str
    compiled: bool
    commit: str | None

    @classmethod
    def here(cls) -> Environment:
        """Look at this machine, this interpreter and this checkout."""
        return cls(
            started=datetime.now(UTC).isoformat(timespec="seconds"),
            system=f"{platform.system()} {platform.release()} {platform.machine()}",
            processor=_processor(),
            cpus=os.cpu_count() or 1,
            load=round(os.getloadavg()[0], 2),
            python=f"{platform.python_implementation()} {platform.python_version()}",
            compiled=COMPILED,
            commit=_commit(),
        )


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor()


def _commit() -> str | None:
    try:
        commit = _git("rev-parse", "HEAD")
        return commit + "+" if _git("status", "--porcelain") else commit
    except (OSError, subprocess.CalledProcessError):
        return None  # no git here, or an unpacked source distribution


def _git(*words: str) -> str:
    # Without optional locks: a status must not get in the way of somebody's commit.
    command = ("git", "--no-optional-locks", *words)
    return subprocess.check_output(command, cwd=_ROOT, text=True, stderr=subprocess.DEVNULL).strip()
