"""Stacks on request in a cluster: questions go to all nodes, whatever channels the locks use."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.support.patience import GIVE_UP, wait_until
from tests.support.renewal import renews_soon

from interlock import connect
from interlock._links.urls import open_url
from interlock.inspection.reader import Reader
from interlock.options import Options

if TYPE_CHECKING:
    from typing import Literal

    from tests.support.cluster import ClusterServers


@pytest.mark.parametrize("pubsub", ["sharded", "plain"])
def test_a_holder_in_a_cluster_tells_its_stack(
    pubsub: Literal["sharded", "plain"], cluster: ClusterServers
) -> None:
    """A client that hears messages of one node answers an operator who asks at another one."""
    url = cluster.url()
    with renews_soon(connect(url, pubsub=pubsub)) as client, connect(url) as other:
        with other.lock("busy"):
            assert not client.lock("busy").acquire(timeout=2)
        with client.lock("orders"), Reader(open_url(url), Options()) as reader:

            def told() -> bool:
                info = reader.describe("orders")
                assert info is not None
                [stack] = reader.stacks(info)
                return any("test_cluster_stacks.py" in call for call in stack.calls)

            wait_until(told, GIVE_UP, "it answers")


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
