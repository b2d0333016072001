"""What the command says on stderr, and how it ends."""

from __future__ import annotations

import os
import signal
import sys

import pytest

from interlock.cli.status import Status, say, signal_status


def test_a_message_is_one_line(capsys: pytest.CaptureFixture[str]) -> None:
    """A message is one line on stderr that begins with the command's name."""
    say("first\n  second")
    assert capsys.readouterr() == ("", "interlock: first second\n")


def test_nobody_reads_the_message(monkeypatch: pytest.MonkeyPatch) -> None:
    """A closed pipe does not end the command: its job goes on."""
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "w", buffering=1) as closed:
        monkeypatch.setattr(sys, "stderr", closed)
        say("lost")
        monkeypatch.undo()
        with pytest.raises(BrokenPipeError):
            closed.flush()
        os.dup2(os.open(os.devnull, os.O_WRONLY), writing)


def test_the_exit_statuses_are_those_of_the_manual() -> None:
    """The statuses of flock, timeout and sysexits keep their numbers."""
    numbers = (Status.CONFLICT, Status.USAGE, Status.UNAVAILABLE, Status.LOST, Status.MAX_HOLD)
    assert numbers == (1, 64, 69, 70, 124)
    assert signal_status(signal.SIGTERM) == 143
