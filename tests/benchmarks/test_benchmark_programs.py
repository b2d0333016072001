"""The agents in Java and Go: built from here, and told apart from what is not installed."""

from __future__ import annotations

import shutil
import sys
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from benchmarks.compare import Contender
from benchmarks.measure import Case, Pace
from benchmarks.peers.programs import PROGRAMS, REDISSON, BuildError, _place, _run
from benchmarks.report import as_json
from benchmarks.work import conduct
from benchmarks.works import contended, handoff, uncontended

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.peer import ProgramPeer
    from benchmarks.work import Work

TOOLS = {"redisson": "mvn", "rueidislock": "go", "redsync": "go"}


def _brisk(peer: ProgramPeer) -> ProgramPeer:
    return replace(peer, warmup=0.1)


@pytest.mark.timeout(600)  # the first build asks registries
@pytest.mark.parametrize("peer", PROGRAMS, ids=lambda peer: peer.name)
@pytest.mark.parametrize(
    ("work", "case"),
    [
        (uncontended.WORK, Case("threads", 2)),
        (handoff.WORK, Case("threads", 1, processes=2)),
        (contended.WORK, Case("threads", 2, work=0.001)),
    ],
    ids=["uncontended", "handoff", "contended"],
)
def test_a_program_does_each_work(peer: ProgramPeer, work: Work, case: Case) -> None:
    """Each language's locks give every figure and exclude; the error names a missing tool."""
    chosen = replace(work, contenders=(Contender(case, _brisk(peer)),))
    report = conduct(chosen, pace=Pace(0.1, 0.5), rounds=1, seed=1)
    (result,) = as_json(report)["results"]
    if shutil.which(TOOLS[peer.name]) is None:
        assert result["error"] == f"BuildError: {TOOLS[peer.name]} is not installed"
    else:
        assert result["error"] is None
        assert set(result["figures"]) >= {column.name for column in work.columns}
    assert as_json(report)["peers"][peer.name]


def test_what_does_not_build_is_an_error_with_the_words_of_the_compiler(tmp_path: Path) -> None:
    """Neither a missing tool nor a failed build passes for a peer that was measured."""
    with pytest.raises(BuildError, match="no-such-tool is not installed"):
        _run(["no-such-tool"], tmp_path)
    with pytest.raises(BuildError, match="cannot build"):
        _run([sys.executable, "-c", "raise SystemExit('cannot build')"], tmp_path)


def test_another_program_is_built_at_another_place(tmp_path: Path) -> None:
    """Agents of checkouts that differ have different places; the same source has one place."""
    (tmp_path / "main.go").write_text("package main")
    place = _place(tmp_path)
    assert _place(tmp_path) == place
    (tmp_path / "main.go").write_text("package main // changed")
    assert _place(tmp_path) != place


def test_the_version_told_is_the_version_built() -> None:
    """The report's versions are those of the build files."""
    pom = (_java() / "pom.xml").read_text()
    assert f"<version>{REDISSON.versions()['redisson']}</version>" in pom
    modules = (_java().parent / "go" / "go.mod").read_text()
    for peer in PROGRAMS:
        if peer is not REDISSON:
            assert f" v{peer.versions()[peer.name]}\n" in modules


def _java() -> Path:
    from benchmarks.peers import programs

    return programs._JAVA
