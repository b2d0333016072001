"""A job under a hold that the test controls: its status, its signals, and when it is stopped."""

from __future__ import annotations

import os
import signal
import threading
import time
from typing import TYPE_CHECKING

import pytest
from tests.support.patience import wait_until

from interlock.cli.job import RunOptions, Signals, Supervision, start

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from interlock.errors import LossReason

LONG = 60.0
"""Seconds that nothing here takes: a test that runs into it has failed."""


class Loss(threading.Event):
    """A loss that nobody explains."""

    reason: LossReason | None = "server lost it"
    detail = ""


class FakeHold:
    """A hold that is lost when the test says so."""

    def __init__(self) -> None:
        self.lost = Loss()
        self._callbacks: list[Callable[[], object]] = []

    def on_lost(self, callback: Callable[[], object], /) -> None:
        self._callbacks.append(callback)

    def lose(self) -> None:
        self.lost.set()
        for callback in self._callbacks:
            callback()


class Stage:
    """One supervised job; its progress is a file that it writes to."""

    def __init__(self, directory: Path) -> None:
        self.hold = FakeHold()
        self.seen = directory / "seen"
        self.pid = 0

    def when_it_writes(self, text: str, action: Callable[[], object]) -> None:
        """Perform *action* from another thread once the job has written *text*."""

        def watch() -> None:
            seen = self.seen
            wait_until(lambda: seen.exists() and text in seen.read_text(), LONG, f"{text} is seen")
            action()

        self.watcher = threading.Thread(target=watch, daemon=True)
        self.watcher.start()

    def run(self, *command: str, **options: object) -> int:
        run_options = RunOptions(name="NAME", command=command, **options)  # type: ignore[arg-type]
        with Signals() as signals:
            signals.queue_signals()
            job = start(command, {**os.environ, "SEEN": str(self.seen)}, run_options.on_lost)
            self.pid = job.pid
            supervision = Supervision(job, self.hold, run_options, signals, time.monotonic())
            return supervision.run()

    def shell(self, text: str, **options: object) -> int:
        return self.run("/bin/sh", "-c", text, **options)


@pytest.fixture
def stage(tmp_path: Path) -> Stage:
    return Stage(tmp_path)


# A shell runs a trap once its sleep has ended. So the sleeps are short, and none is left over.
DEAF = "trap 'echo term >>$SEEN' TERM; echo up >>$SEEN; while :; do sleep 0.05; done"
OBEDIENT = "trap 'echo term >>$SEEN; exit 9' TERM; echo up >>$SEEN; while :; do sleep 0.05; done"
FINISHING = (
    "trap 'exit 0' TERM; echo up >>$SEEN; while [ ! -e $SEEN.go ]; do sleep 0.05; done; exit 5"
)


@pytest.mark.parametrize("signum", [signal.SIGKILL, signal.SIGTERM, signal.SIGINT, signal.SIGSEGV])
def test_an_end_by_a_signal_is_128_and_its_number(stage: Stage, signum: int) -> None:
    """Interlock reports an end by a signal as a shell does."""
    assert stage.shell(f"kill -{int(signum)} $$") == 128 + signum


def test_an_unknown_program_is_127(stage: Stage, capfd: pytest.CaptureFixture[str]) -> None:
    """A program that is not found gives 127 and one line."""
    assert stage.run("no-such-program-anywhere") == 127
    err = capfd.readouterr().err
    assert err.startswith("interlock: cannot run 'no-such-program-anywhere': there is no such")
    assert err.count("\n") == 1


def test_a_program_that_cannot_be_executed_is_126(
    stage: Stage, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """A file without permission to execute gives 126 and one line."""
    program = tmp_path / "program"
    program.write_text("#!/bin/sh\n")
    assert stage.run(str(program)) == 126
    assert capfd.readouterr().err == f"interlock: cannot run {str(program)!r}: Permission denied\n"


def test_a_signal_to_a_job_that_is_just_starting_is_not_lost(stage: Stage) -> None:
    """A signal at any moment of a job's start ends it, as it would end its program."""
    for moment in range(0, 40, 2):
        with Signals() as signals:
            signals.queue_signals()
            job = start(["/bin/sleep", str(LONG)], os.environ, "term")
            time.sleep(moment / 1000)  # the moment of a real signal
            job.send_signal(signal.SIGTERM)
            options = RunOptions(name="NAME")
            status = Supervision(job, stage.hold, options, signals, time.monotonic()).run()
        assert status == 128 + signal.SIGTERM


def test_a_lock_lost_before_the_job_started_stops_it_too(stage: Stage) -> None:
    """A loss that was told before anybody listened is not overlooked."""
    stage.hold.lose()
    assert stage.run("/bin/sleep", str(LONG)) == 70


def test_a_job_deaf_to_term_is_killed(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """A job that does not stop within --kill-after is killed."""
    stage.when_it_writes("up", stage.hold.lose)
    assert stage.shell(DEAF, kill_after=0.5) == 70
    assert "term" in stage.seen.read_text()
    assert "did not stop within 0.5 s: killing it" in capsys.readouterr().err


def test_a_suspended_job_is_stopped_too(stage: Stage) -> None:
    """A job in the middle of Ctrl-Z is woken to receive its TERM."""

    def suspend_and_lose() -> None:
        os.kill(stage.pid, signal.SIGSTOP)
        stage.hold.lose()

    stage.when_it_writes("up", suspend_and_lose)
    assert stage.shell(OBEDIENT, kill_after=LONG) == 70
    assert "term" in stage.seen.read_text()


def test_on_lost_kill_does_not_ask(stage: Stage) -> None:
    """With --on-lost kill the job gets no TERM."""
    stage.when_it_writes("up", stage.hold.lose)
    assert stage.shell(DEAF, on_lost="kill") == 70
    assert "term" not in stage.seen.read_text()


def test_on_lost_warn_lets_the_job_end(stage: Stage, capsys: pytest.CaptureFixture[str]) -> None:
    """With --on-lost warn the job runs on, its status counts, and the loss is told once."""

    def lose_and_go() -> None:
        stage.hold.lose()
        stage.hold.lose()
        time.sleep(0.2)  # the job runs on
        stage.seen.with_name("seen.go").touch()

    stage.when_it_writes("up", lose_and_go)
    assert stage.shell(FINISHING, on_lost="warn") == 5
    assert capsys.readouterr().err.count("was lost") == 1


def test_a_fault_of_ours_leaves_no_job_behind(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever breaks in the supervision, no job runs on without its lock."""

    def broken(*_: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(Signals, "wait", broken)
    with pytest.raises(RuntimeError, match="broken"):
        stage.run("/bin/sleep", str(LONG))
    with pytest.raises(ProcessLookupError):
        os.kill(stage.pid, 0)
