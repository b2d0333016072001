"""Reading one lock of a cluster."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from tests.support.servers import wait_until

from interlock import connect

if TYPE_CHECKING:
    from tests.support.cluster import ClusterServers

    from interlock import Client


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


def test_the_queue_of_a_lock_in_a_cluster_is_read(cluster: ClusterServers) -> None:
    """It is told in its order, also if no card tells of those who wait."""
    with connect(cluster.url(), card=False) as client, connect(cluster.url(), card=False) as other:
        locks = [other.lock("orders") for _ in range(3)]
        threads = [threading.Thread(target=_use, args=[lock]) for lock in locks]
        with client.lock("orders"):
            for n, thread in enumerate(threads, 1):
                thread.start()
                wait_until(lambda n=n: _waiting(client) == [other.client_id] * n, 10, "it waits")
            [listed] = client.locks()
            assert [each.position for each in listed.waiters] == [1, 2, 3]
        for thread in threads:
            thread.join(20)


def _use(lock: Any) -> None:
    with lock:
        pass


def _waiting(client: Client) -> list[str]:
    info = client.describe("orders")
    assert info is not None
    return [each.client.client_id for each in info.waiters]
