"""The page of evidence: written from the records of runs, and of nothing else."""

from __future__ import annotations

import re
import sys
from typing import TYPE_CHECKING, Any

import pytest
from tests.packages import ROOT

sys.path.insert(0, str(ROOT / "tools"))

import evidence

if TYPE_CHECKING:
    from pathlib import Path


def test_the_page_is_what_the_records_say() -> None:
    """The page has each promise, each proof was run as it is written, and all passed."""
    assert evidence.problems(evidence.PAGE.read_text(), evidence.records()) == []


@pytest.mark.parametrize("name", evidence.PROOFS)
def test_each_command_names_what_is_there(name: str) -> None:
    """The files and modules in the commands exist."""
    for word in evidence.PROOFS[name].command.split():
        if "/" in word:
            assert (ROOT / word).exists()
    module = re.search(r"-m ([\w.]+)", evidence.PROOFS[name].command)
    if module is not None and module[1] != "pytest":
        path = ROOT / module[1].replace(".", "/")
        assert (path / "__main__.py").exists()


@pytest.fixture
def runs(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> dict[str, Any]:
    """Give two proofs, of which one fails, and no records."""
    proofs = {
        "good": evidence.Proof("test", "that", """python -c 'print("first\\nthe|end")'"""),
        "bad": evidence.Proof("test", "this", """python -c 'raise SystemExit("no")'"""),
    }
    monkeypatch.setattr(evidence, "PROOFS", proofs)
    promise = evidence.Promise("It works.", "It may not.", ("good", "bad"))
    monkeypatch.setattr(evidence, "PROMISES", (promise,))
    monkeypatch.setattr(evidence, "RECORDS", tmp_path / "records.json")
    monkeypatch.setattr(evidence, "PAGE", tmp_path / "page.md")
    # A copy of the sources has no repository.
    monkeypatch.setattr(evidence, "_git", lambda *_words: "1234567")
    return proofs


def test_runs_are_noted_with_their_results(
    runs: dict[str, Any], capsys: pytest.CaptureFixture[str]
) -> None:
    """A run notes command, date, commit and the last line, and the page shows them."""
    assert evidence.main(["check"]) == 1
    assert "good was never run" in capsys.readouterr().out
    assert evidence.main(["run", "good"]) == 0
    assert evidence.main(["run"]) == 1
    noted = evidence.records()
    assert (noted["good"]["passed"], noted["good"]["result"]) == (True, "the/end")
    assert (noted["bad"]["passed"], noted["bad"]["result"]) == (False, "no")
    page = evidence.PAGE.read_text()
    assert "**Failed** on " in page
    assert "**Not promised:** It may not." in page
    assert evidence.problems(page, noted) == ["bad has failed"]


def test_what_does_not_fit_is_told(runs: dict[str, Any]) -> None:
    """Another command, a record of a former proof and an unused proof are told."""
    assert evidence.main(["run", "good"]) == 0
    noted = evidence.records()
    runs["good"] = evidence.Proof("test", "that", "python -c 0")
    runs["unused"] = runs["bad"]
    noted |= {"former": noted["good"], "unused": noted["good"] | {"command": runs["bad"].command}}
    assert evidence.problems(evidence.page(noted), noted) == [
        "good has another command now: tools/evidence.py run good",
        "bad was never run: tools/evidence.py run bad",
        "former is no proof any more",
        "no promise needs unused",
    ]
