"""Reading one lock of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock import connect

if TYPE_CHECKING:
    from tests.support.cluster import ClusterServers


def test_one_lock_of_a_cluster_needs_no_scan(cluster: ClusterServers) -> None:
    """To describe or break a lock that nobody listens for, no node goes through its keys."""
    url = cluster.url()
    with connect(url) as client:
        assert client.lock("orders").acquire()
        for node in cluster.nodes:
            node.execute("CONFIG", "RESETSTAT")
        assert client.describe("orders") is not None
        assert client.lock("orders").force_release()
        for node in cluster.nodes:
            with node.client() as seen:
                assert "cmdstat_scan" not in seen.info("commandstats")
