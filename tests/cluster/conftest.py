"""Fixtures: real clusters of three primaries and three replicas, on both faces."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.cluster.seen import eyes
from tests.objects.awaited import KINDS, Face, Stage
from tests.support.binary import main_version
from tests.support.servers import ClusterServers, binaries

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Callable, Iterator

PATIENCE = 20.0
"""Seconds for a command in a cluster that nobody harms. A busy machine learns its map slowly."""


@pytest.fixture(scope="session")
def cluster_of_version() -> Iterator[Callable[[str], ClusterServers]]:
    """Give a function from a version to a cluster of it, started on first use and shared.

    A test must not harm it.
    """
    started: dict[str, ClusterServers] = {}

    def of_version(version: str) -> ClusterServers:
        if version not in started:
            # A machine that stalls for a moment is no failing node: nobody is to be promoted here.
            servers = ClusterServers(binary=binaries()[version], node_timeout=20)
            started[version] = servers.__enter__()
        return started[version]

    yield of_version
    for servers in started.values():
        servers.__exit__(None, None, None)


@pytest.fixture
def cluster(cluster_of_version: Callable[[str], ClusterServers]) -> ClusterServers:
    """Give the cluster that most tests share, whose data is gone; do not harm it."""
    return emptied(cluster_of_version(main_version()))


@pytest.fixture(params=["redis-6.2", "redis-8.2"])
def other_cluster(
    request: pytest.FixtureRequest, cluster_of_version: Callable[[str], ClusterServers]
) -> ClusterServers:
    return emptied(cluster_of_version(request.param))


def emptied(servers: ClusterServers) -> ClusterServers:
    for node in servers.nodes[:3]:
        node.execute("FLUSHALL")
    return servers


@pytest.fixture
async def plain(face: Face, cluster: ClusterServers, patient: None) -> AsyncIterator[Stage]:
    with eyes(cluster) as seen:
        async with Stage(face, KINDS[0], cluster.url(), seen, command_timeout=PATIENCE) as set_up:
            yield set_up
