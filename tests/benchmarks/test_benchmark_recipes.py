"""The recipes beside kazoo's, in their short form."""

from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.__main__ import main
from benchmarks.recipes import command

if TYPE_CHECKING:
    import pytest


def test_every_waiter_goes_on_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Forty waiters in two processes wake within a second, and cost little while they wait."""
    monkeypatch.setattr(command, "TERMS", 2)
    figures = command.measure(["interlock"], 2, 40, idle=2)["interlock"]
    assert figures["event: last waiter goes on after"] < 1 + 2, "2 s for a machine that is busy"
    assert figures["event: commands a second of all idle waiters"] < 40
    assert set(figures) == {
        "event: commands a second of all idle waiters",
        "event: median waiter goes on after",
        "event: last waiter goes on after",
        "barrier: a round of 2 parties",
        "election: the next one leads after",
    }


def test_the_table(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """The command prints a row for each figure, and a column for each library."""
    monkeypatch.setattr(command, "TERMS", 2)
    words = ["recipes", "--libraries", "interlock", "--processes", "1", "--waiters", "2"]
    assert main([*words, "--idle", "0.1"]) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("| figure | interlock |")
    assert len(printed.splitlines()) == 2 + 5
