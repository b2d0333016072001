"""Operations in a cluster: the commands find and break a hold, and a deadlock is found."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.operations.on_call import find_a_deadlock, operate

if TYPE_CHECKING:
    import pytest
    from tests.support.cluster import ClusterServers


def test_a_hold_is_found_and_broken(
    cluster: ClusterServers, capsys: pytest.CaptureFixture[str]
) -> None:
    """list, top and show see the locks of all nodes; release breaks one hold."""
    operate(cluster.url(), capsys)


def test_a_deadlock_over_two_nodes_is_found(cluster: ClusterServers) -> None:
    """Two clients that wait for each other are found."""
    find_a_deadlock(cluster.url())
