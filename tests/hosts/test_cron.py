"""The crontab and the units of the how-to: their commands run, and systemd reads the units."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.hosts.pages import write_programs

import interlock

UNITS = ("nightly.service", "nightly.timer", "importer.service")
SHOWN = "redis://localhost:6379/0"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Write the files of the how-to, with the options that make a job last cut down to nothing."""
    write_programs("cron.md", tmp_path)
    return tmp_path


def run(command: str, environ: Mapping[str, str]) -> subprocess.CompletedProcess[str]:
    """Run a command as cron does: by a shell, with nothing but the environment of the crontab."""
    return subprocess.run(
        [environ.get("SHELL", "/bin/sh"), "-c", command],
        env=environ,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )


def test_crontab(page: Path, redis_url: str) -> None:
    """Each job of the crontab runs; while another machine holds the lock it is silent or waits."""
    lines = [
        line
        for line in (page / "crontab").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    environ = dict(line.split("=", 1) for line in lines if line[0].isalpha())
    assert environ["INTERLOCK_URL"] == SHOWN
    environ |= {
        "INTERLOCK_URL": redis_url,
        "PATH": f"{Path(sys.executable).parent}:{environ['PATH']}",
    }
    jobs = [line.split(None, 5)[5] for line in lines if not line[0].isalpha()]
    assert len(jobs) == 3
    shortened = [job.replace("--min-hold 60", "--min-hold 0.2") for job in jobs]
    outputs = ["backup\n", "updated\n", "fetched\n"]
    for job, output in zip(shortened, outputs, strict=True):
        done = run(job, environ)
        assert (done.returncode, done.stdout, done.stderr) == (0, output, ""), job
    with interlock.connect(redis_url) as other, other.lock("nightly"), other.lock("feed"):
        for job in (shortened[0], shortened[2]):
            done = run(job, environ)
            assert (done.returncode, done.stdout, done.stderr) == (0, "", ""), job


@pytest.mark.parametrize("unit", UNITS)
def test_units(page: Path, unit: str) -> None:
    """Systemd finds nothing wrong with the units."""
    program = shutil.which("systemd-analyze")
    assert program is not None, "systemd-analyze is missing: apt-get install systemd"
    done = subprocess.run(
        [program, "verify", "--man=no", page / unit],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
