"""The works on the family, many holds, many waiters, quorum and start-up, at their smallest."""

from __future__ import annotations

from dataclasses import replace

import pytest
from benchmarks.audit import AuditError, Auditor
from benchmarks.compare import Contender
from benchmarks.measure import Case, Pace
from benchmarks.peer import SyncPeer
from benchmarks.peers import MEASURED, OWN_LIMITS, find, interlock, quorum
from benchmarks.report import Report, as_json
from benchmarks.turns import Turn
from benchmarks.work import Work, conduct
from benchmarks.works import cluster as in_cluster
from benchmarks.works import fair, family, many, scale, startup
from benchmarks.works import quorum as red
from tests.support.server import RedisServer

pytestmark = pytest.mark.timeout(300)  # many processes, on a machine that may be busy


def _conduct(work: Work, *contenders: Contender, seconds: float = 0.3) -> Report:
    chosen = replace(work, contenders=contenders)
    report = conduct(chosen, pace=Pace(0.05, seconds), rounds=1, seed=1)
    for result in as_json(report)["results"]:
        assert result["error"] is None
        assert set(result["figures"]) >= {column.name for column in work.columns}
    return report


def test_every_object_takes_two_round_trips_a_pair() -> None:
    """Each object of both faces is measured, with one EVALSHA to acquire and one to release.

    The audit counts them. The objects' own bare limits are measured too, and send the same.
    """
    contenders = [Contender(Case(peer.kind, 2), peer) for peer in (*MEASURED, *OWN_LIMITS)]
    report = _conduct(family.OBJECTS, *contenders, seconds=0.1)
    for result in report.results:
        (trips,), (pairs,) = result.figures("trips"), result.figures("pairs")
        each = result.contender.peer.calls["evalsha"]
        assert each * pairs <= trips * pairs + 1e-6
        # Each worker's connection and scripts; a limit's worker has the object make pairs before.
        assert trips * pairs <= 1.01 * each * pairs + 10 * each


def test_the_limit_of_a_semaphore_takes_permits() -> None:
    """Each call of the limit is executed, as if it had a latch of its own."""
    peer = next(each for each in OWN_LIMITS if each.name == "bare semaphore")
    assert isinstance(peer, SyncPeer)
    with RedisServer() as server, peer.open(server.url(), 1) as session:
        lock = session.lock("name")
        for _ in range(3):
            lock.acquire()
            assert server.execute("GET", "name") == b"0"
            lock.release()
            assert server.execute("GET", "name") == b"1"


def test_other_objects_exclude() -> None:
    """The contended work finds no two holders of a fair lock, or of a single permit."""
    chosen = [find(name, "tasks") for name in ("fair lock", "leased semaphore")]
    _conduct(family.WANTED, *(Contender(Case("tasks", 3), peer) for peer in chosen))


def test_the_red_lock_asks_every_server() -> None:
    """On each server the audit finds the commands of every pair."""
    contenders = [Contender(Case(peer.kind, 1), peer) for peer in quorum.QUORUM[:4]]
    _conduct(red.WORK, *contenders)


def test_the_nodes_of_a_cluster_are_audited_together() -> None:
    """Both faces are measured in a cluster. Its nodes together count the commands of every pair."""
    _conduct(in_cluster.WORK, *(Contender(Case(peer.kind, 4), peer) for peer in interlock.CLUSTER))


def test_processes_in_a_fair_queue_are_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """A small queue gives all figures, and nobody is overtaken by one who asked a second later."""
    monkeypatch.setattr(fair, "_DOUBT", 1.0)  # beyond any time for which a machine stands still
    contender = Contender(Case("threads", 1, processes=2, work=0.001), fair.FAIR)
    report = _conduct(fair.WORK, contender, seconds=1.5)
    assert report.results[0].figures("overtaken") == [0]


def test_an_overtaking_is_beyond_doubt() -> None:
    """An overtaker that asked clearly later is counted; one that asked at the same time is not."""
    first, second = Turn(0.0, 3.0, 4.0), Turn(1.0, 2.0, 3.0)
    assert fair.overtakings([[first], [second]], doubt=0.5) == 1
    assert fair.overtakings([[first], [second]], doubt=1.5) == 0
    assert fair.overtakings([[Turn(0, 1, 2)], [Turn(1, 3, 4)]], doubt=0) == 0


def test_many_holds_are_renewed_in_few_trips() -> None:
    """Two hundred holds cost two round trips a period, and none is lost."""
    report = _conduct(many.WORK_HOLDS, Contender(Case("holds", 200), interlock.ASYNC), seconds=4.5)
    assert 0.5 <= report.results[0].figures("trips")[0] <= 1.5
    assert 0 <= report.results[0].figures("core")[0] < 1


def test_many_waiters_share_one_subscription() -> None:
    """Fifty waiters on five names have one subscriber, and all of them have their turn at last."""
    waiters = Contender(Case("waiting tasks", 50), interlock.ASYNC)
    report = _conduct(many.WORK_WAITERS, waiters, seconds=1)
    assert report.results[0].figures("subscribers") == [1]


def test_start_up_is_measured_from_a_new_process() -> None:
    """The import takes time, and connecting some round trips."""
    contender = Contender(startup.CASE, interlock.SYNC)
    report = _conduct(startup.WORK, contender, seconds=0.1)
    (result,) = report.results
    assert result.figures("ready")[0] > result.figures("module")[0] > 0
    assert 2 <= result.figures("trips")[0] <= 6


def test_the_audit_knows_what_a_peer_leaves() -> None:
    """Keys of a peer that is known to leave them are no error; others are."""
    with RedisServer() as server, server.client() as client:
        auditor = Auditor(client)
        auditor.begin()
        client.set("lock-signal:name", 1)
        auditor.check(0, 1, {}, ("lock-signal:",))
        with pytest.raises(AuditError, match="lock-signal:name among them"):
            auditor.check(0, 1, {}, ("another:",))


def test_the_audit_lets_late_servers_miss_a_part() -> None:
    """Of a peer that needs three of five servers, one may miss two of five commands, not more."""
    with RedisServer() as server, server.client() as client:
        auditor = Auditor(client)
        auditor.begin()
        for _ in range(60):
            client.get("name")
        auditor.check(100, 1, {"get": 1}, late=2 / 5)
        for pairs, late in ((100, 0.0), (101, 2 / 5)):
            with pytest.raises(AuditError, match="the server counted 60 get"):
                auditor.check(pairs, 1, {"get": 1}, late=late)


def test_costs_are_told_for_both_sides(monkeypatch: pytest.MonkeyPatch) -> None:
    """Client processes share a server or a cluster, and each side's processor time is told."""
    single, cluster = Case("tasks", 5, processes=2), Case("tasks", 5, label="cluster")
    monkeypatch.setattr(scale, "_CLUSTERS", {cluster: 2})
    contenders = [Contender(case, interlock.ASYNC) for case in (single, cluster)]
    report = _conduct(scale.WORK, *contenders, seconds=1)
    for result in report.results:
        assert 0 < result.figures("server_cost")[0] < result.figures("client_cost")[0] < 0.1
