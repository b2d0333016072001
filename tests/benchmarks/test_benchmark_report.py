"""The report of all works: what is written, and that it is what was measured."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from benchmarks.compare import Contender, Result
from benchmarks.environment import Environment
from benchmarks.everything import conduct_all
from benchmarks.measure import Case
from benchmarks.peer import SyncPeer
from benchmarks.peers import bare, interlock
from benchmarks.report import Report
from benchmarks.works import WORKS, family, uncontended

from benchmarks import beside, glance

if TYPE_CHECKING:
    from pathlib import Path
    from typing import NoReturn


def _absent(url: str, workers: int) -> NoReturn:
    raise ModuleNotFoundError("No module named 'faulty'")


def test_a_report_is_a_page_with_data_and_charts(tmp_path: Path) -> None:
    """Every work has its table, its JSON and a chart that names each peer.

    A failed peer is shown with its error.
    """
    peers = (bare.SYNC, interlock.SYNC, SyncPeer("faulty", (), open=_absent))
    contenders = tuple(Contender(Case("threads", 2), peer) for peer in peers)
    works = [replace(uncontended.WORK, name=name, brief=contenders) for name in ("one", "two")]
    reports = conduct_all(works, tmp_path / "new", short=True, seed=7, server=None)
    assert [report.failed for report in reports] == [True, True]
    page = (tmp_path / "new" / "report.md").read_text(encoding="utf-8")
    assert "Believe no figure" in page
    for name in ("one", "two"):
        assert f"## {name}" in page
        assert f"]({name}.svg)" in page
        data = json.loads((tmp_path / "new" / f"{name}.json").read_text(encoding="utf-8"))
        assert data["settings"]["seed"] == 7
        chart = "".join(ET.parse(tmp_path / "new" / f"{name}.svg").getroot().itertext())
        for word in ("bare", "interlock", "faulty", "No module named"):
            assert word in chart
            assert word in page


def test_a_page_for_who_decides(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The page has a row with all figures for each peer, or its error, and the three charts."""
    peers = (interlock.SYNC, SyncPeer("faulty", (), open=_absent))
    monkeypatch.setattr(glance, "_PEERS", peers)
    monkeypatch.setitem(glance._DESCRIPTIONS, "faulty", "fails")
    page, pictures = tmp_path / "glance.md", tmp_path / "pictures"
    glance.conduct_page(page, pictures, rounds=1, seconds=0.5)
    rows = {
        row.split("**")[1]: [cell.strip() for cell in row.split("|")[2:-1]]
        for row in page.read_text(encoding="utf-8").splitlines()
        if row.startswith("| **")
    }
    assert rows.keys() == {"interlock", "faulty"}
    figures = [float(cell.partition(" ")[0].replace(",", "")) for cell in rows["interlock"]]
    assert len(figures) == 6
    assert min(figures) > 0
    assert all(cell.startswith("error: ") for cell in rows["faulty"])
    assert {path.name for path in pictures.iterdir()} == {
        f"glance-{name}.svg" for name in ("uncontended", "fleet", "handoff")
    }


def test_the_table_of_shares_replaces_the_former_one(tmp_path: Path) -> None:
    """Each object with a bare limit has a line; a share below its goal is bold."""
    case, other = Case("threads", 1), Case("tasks", 100)
    rates = {"bare": 20.0, "interlock": 18.0, "bare fair lock": 10.0, "fair lock": 5.0}
    results = [
        Result(Contender(case, SyncPeer(name, (), open=_absent)), [{"rate": rate}] * 3)
        for name, rate in rates.items()
    ]
    results.append(Result(Contender(other, SyncPeer("fair lock", (), open=_absent))))
    report = Report(
        command="objects",
        question="",
        columns=family.OBJECTS.columns,
        settings={"rounds": 3, "seconds": 0.5, "seed": 7},
        environment=Environment.here(),
        server={},
        results=results,
        references=(),
        goals=family.OBJECTS.goals,
    )
    page = tmp_path / "page.md"
    page.write_text(f"before\n{beside.BEGIN}\nold\n{beside.END}\nafter\n", encoding="utf-8")
    for _ in range(2):
        beside.write(report, page)
    text = page.read_text(encoding="utf-8")
    assert "| interlock | 0.90 | - |" in text
    assert "| fair lock | **0.50** | - |" in text
    assert "3 rounds" in text
    assert "old" not in text
    assert (text.startswith("before\n"), text.endswith("\nafter\n")) == (True, True)
    page.write_text("no such place", encoding="utf-8")
    with pytest.raises(ValueError, match="has no lines"):
        beside.write(report, page)


def test_a_short_run_measures_little_of_each_work() -> None:
    """A work has a short form of fewer contenders, or is left out because another does the same."""
    left_out = {name for name, work in WORKS.items() if not work.brief}
    assert left_out == {"cluster", "rivals-handoff", "rivals-contended"}
    for work in WORKS.values():
        assert sum(one.case.workers for one in work.brief) < sum(
            one.case.workers for one in work.contenders
        )
