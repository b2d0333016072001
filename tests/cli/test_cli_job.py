"""The start of a job, the keys of a terminal, and the death of interlock during a job."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pexpect
import pytest
from tests.support import patience
from tests.support.program import run

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

LONG = 60.0
SUPERVISE = """
import os, sys, threading, time
from interlock.cli.job import Signals, Supervision, start
from interlock.cli.job import RunOptions

class Hold:
    lost = threading.Event()
    def on_lost(self, callback): pass

options = RunOptions(name="NAME", command=tuple(sys.argv[2:]), on_lost=sys.argv[1])
with Signals() as signals:
    signals.queue_signals()
    job = start(options.command, os.environ, options.on_lost)
    sys.exit(Supervision(job, Hold(), options, signals, time.monotonic()).run())
"""
"""Supervises its arguments after the first, which is --on-lost; its hold is never lost."""


def supervised(*command: str, on_lost: str = "term") -> list[str]:
    return [sys.executable, "-c", SUPERVISE, on_lost, *command]


def wait_until(reached: Callable[[], bool]) -> None:
    """Return as soon as *reached*; fail when that takes very long."""
    patience.wait_until(reached, LONG, "it comes")


def running(pid: int) -> bool:
    """Tell whether *pid* runs; a zombie does not."""
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123 - one line of /proc
            return stat.read().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


@pytest.fixture
def stray() -> Iterator[list[int]]:
    """Collect the processes that a test kills the parents of, and end what is left of them."""
    pids: list[int] = []
    yield pids
    for pid in filter(running, pids):
        os.kill(pid, signal.SIGKILL)


def test_stdin_stdout_and_further_files_are_the_jobs() -> None:
    """The job reads our stdin, writes our stdout, and has what the caller left open."""
    reader, writer = os.pipe()
    os.write(writer, b"from the pipe\n")
    os.close(writer)
    words = supervised("/bin/sh", "-c", f"cat; cat /dev/fd/{reader}")
    done = run(*words, input="from stdin\n", pass_fds=[reader])
    os.close(reader)
    assert (done.stdout, done.stderr) == ("from stdin\nfrom the pipe\n", "")


def standard_signals(status: str) -> list[int]:
    """Return the masks of /proc/.../status without glibc's own signals.

    posix_spawn leaves those ignored.
    """
    return [int(line.split()[1], 16) & 0x7FFFFFFF for line in status.splitlines()]


def test_the_job_finds_signals_as_a_program_expects() -> None:
    """Nothing is blocked, and nothing is ignored that Python ignores for itself."""
    show = ("/bin/sh", "-c", "grep ^Sig[BI] /proc/self/status")
    done = run(*supervised(*show))
    assert standard_signals(done.stdout) == [0, 0]


def test_under_nohup_the_job_ignores_hup() -> None:
    """An ignored HUP is ignored by interlock and by the job."""
    with subprocess.Popen(
        ["nohup", *supervised("/bin/sh", "-c", "echo up; sleep 1; exit 3")],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "up\n"
        process.send_signal(signal.SIGHUP)
        assert process.wait(LONG) == 3


@pytest.mark.parametrize(
    ("on_lost", "survives"), [("term", False), ("kill", False), ("warn", True)]
)
def test_the_death_of_interlock_is_a_loss_to_the_job(
    on_lost: str, survives: bool, stray: list[int]
) -> None:
    """A job whose interlock is killed is told as --on-lost says, for its lock is soon another's."""
    with subprocess.Popen(
        supervised("/bin/sh", "-c", f"echo $$; exec sleep {LONG:.0f}", on_lost=on_lost),
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        job = int(process.stdout.readline())
        stray.append(job)
        process.kill()
    if survives:
        time.sleep(0.3)  # a signal would come at once
        assert running(job)
    else:
        wait_until(lambda: not running(job))


COUNTING = """
import signal, sys, time
log = open(sys.argv[1], "a", buffering=1)
signal.signal(signal.SIGINT, lambda *_: log.write("INT\\n"))
signal.signal(signal.SIGTERM, lambda *_: sys.exit(6))
log.write("up\\n")
while True: signal.pause()
"""
"""Writes down every INT, and ends by TERM with status 6."""


def test_one_ctrl_c_is_one_signal_to_the_job(tmp_path: Path) -> None:
    """A key press reaches the job once, by the terminal; a signal to interlock is passed on."""
    log = tmp_path / "log"
    program, *arguments = supervised(sys.executable, "-c", COUNTING, str(log))
    terminal = pexpect.spawn(program, arguments, timeout=LONG)
    try:
        wait_until(lambda: log.exists() and "up" in log.read_text())
        terminal.sendintr()
        wait_until(lambda: "INT" in log.read_text())
        time.sleep(0.3)  # a second one would come at once
        assert log.read_text() == "up\nINT\n"
        os.kill(terminal.pid, signal.SIGTERM)
        terminal.expect(pexpect.EOF)
    finally:
        terminal.close(force=True)
    assert terminal.exitstatus == 6
