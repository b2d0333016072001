"""A tenant in a cluster: its rights cover all keys, channels and cards on each node."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tests.operations.on_call import find_a_deadlock, operate
from tests.support.tenant import LOGIN, PREFIX, admit, do_everything, refusals

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
