"""The crontab and the units of the how-to: their commands run, and systemd reads the units."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

import pytest
from tests.hosts.pages import write_programs
from tests.support.program import run

import interlock

UNITS = ("nightly.service", "nightly.timer", "importer.service")
SHOWN = "redis://localhost:6379/0"


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Write the files of the how-to, with the options that make a job last cut down to nothing."""
    write_programs("cron.md", tmp_path)
    return tmp_path


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

    def runs(job: str, output: str) -> None:
        # As cron does it: by a shell, with nothing but the environment of the crontab.
        done = run(environ.get("SHELL", "/bin/sh"), "-c", job, env=environ)
        assert (done.returncode, done.stdout, done.stderr) == (0, output, ""), job

    for job, output in zip(shortened, outputs, strict=True):
        runs(job, output)
    with interlock.connect(redis_url) as other, other.lock("nightly"), other.lock("feed"):
        for job in (shortened[0], shortened[2]):
            runs(job, "")


@pytest.mark.parametrize("unit", UNITS)
def test_units(page: Path, unit: str) -> None:
    """Systemd finds nothing wrong with the units."""
    program = shutil.which("systemd-analyze")
    assert program is not None, "systemd-analyze is missing: apt-get install systemd"
    done = run(program, "verify", "--man=no", page / unit)
    assert (done.returncode, done.stderr) == (0, "")
