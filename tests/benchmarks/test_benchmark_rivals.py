"""The rival schemes on their own servers, and the stories in which they fail."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from benchmarks.compare import Contender
from benchmarks.measure import Case, Pace
from benchmarks.peers.rivals import ADVISORY, LEASED, ROW, SET_NX_PX, SETNX
from benchmarks.report import as_json
from benchmarks.work import conduct
from benchmarks.works import rivals, scenarios

from benchmarks import servers

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.peer import Peer

pytestmark = pytest.mark.timeout(300)  # many processes, on a machine that may be busy

REDIS: tuple[Peer, ...] = (SETNX, SET_NX_PX)
POSTGRESQL: tuple[Peer, ...] = (ROW, ADVISORY)


@pytest.mark.parametrize("peers", [REDIS, POSTGRESQL], ids=["Redis", "PostgreSQL"])
def test_a_rival_scheme_is_measured_on_its_server(peers: tuple[Peer, ...]) -> None:
    """A scheme makes pairs with nobody else there, and excludes when several processes want it."""
    for work, case in (
        (rivals.PAIRS, Case("threads", 2)),
        (rivals.TURNS, Case("threads", 1, processes=2, work=0.001)),
    ):
        chosen = replace(work, contenders=tuple(Contender(case, peer) for peer in peers))
        report = conduct(chosen, pace=Pace(0.1, 0.5), rounds=1, seed=1)
        assert [result["error"] for result in as_json(report)["results"]] == [None] * len(peers)


def test_a_server_that_is_not_installed_is_an_error(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A peer that needs it is shown with what to install; the peers on Redis keep their figures."""
    monkeypatch.setattr(servers, "_ZOOKEEPER", tmp_path / "zookeeper.jar")
    contenders = tuple(Contender(Case("threads", 1), peer) for peer in (SETNX, rivals.RIVALS[-1]))
    work = replace(rivals.PAIRS, contenders=contenders)
    report = conduct(work, pace=Pace(0.05, 0.1), rounds=1, seed=1)
    fine, absent = as_json(report)["results"]
    assert fine["error"] is None
    assert "apt-get install zookeeper" in absent["error"]


def test_the_stories_tell_schemes_apart() -> None:
    """The stories find the weaknesses of each scheme.

    Without a lease, a frozen holder's lock is kept. A poller wakes late. A lock that is not renewed
    is lost.
    """
    stories = {str(case): case for case in scenarios.CASES}
    expected = [
        ("survives a frozen holder", ADVISORY, 0.0),
        ("is kept beyond the lease", SET_NX_PX, 0.0),
        ("is kept beyond the lease", LEASED, 1.0),
        ("can be taken again", SET_NX_PX, 0.0),
        ("can be taken again", LEASED, 1.0),
        ("outlives a late release", SETNX, 0.0),
        ("wakes who waits", SET_NX_PX, 0.0),
    ]
    contenders = tuple(Contender(stories[story], peer) for story, peer, _ in expected)
    work = replace(scenarios.WORK, contenders=contenders)
    report = conduct(work, pace=Pace(0, 1), rounds=1, seed=1)
    assert [result.error for result in report.results] == [None] * len(expected)
    assert [result.figures("passes") for result in report.results] == [
        [passes] for _, _, passes in expected
    ]
