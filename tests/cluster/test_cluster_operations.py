"""A cluster as operators and tenants use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.operations.on_call import find_a_deadlock, operate
from tests.support.tenant import LOGIN, PREFIX, admit, do_everything, refusals

from interlock import connect

if TYPE_CHECKING:
    import pytest
    from tests.support.cluster import ClusterServers


def test_a_tenant_can_do_everything(
    cluster: ClusterServers, capsys: pytest.CaptureFixture[str]
) -> None:
    """Each object does all that it can, and the commands find and break: nothing is refused."""
    admit(cluster.nodes)
    url = cluster.url(*LOGIN)
    do_everything(url)
    operate(f"{url}?prefix={PREFIX}", capsys)
    find_a_deadlock(f"{url}?prefix={PREFIX}")
    assert refusals(cluster.nodes) == []


def test_one_lock_of_a_cluster_needs_no_scan(cluster: ClusterServers) -> None:
    """To describe or break a lock that nobody listens for, no node goes through its keys."""
    with connect(cluster.url()) as client:
        assert client.lock("orders").acquire()
        for node in cluster.nodes:
            node.execute("CONFIG", "RESETSTAT")
        assert client.describe("orders") is not None
        assert client.lock("orders").force_release()
        for node in cluster.nodes:
            with node.client() as seen:
                assert "cmdstat_scan" not in seen.info("commandstats")
