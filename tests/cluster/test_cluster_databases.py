"""Databases of a cluster of Valkey 9: each is a place of its own for locks."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.objects.awaited import KINDS, Face, Stage, queued
from tests.support.doings import do_everything
from tests.support.servers import ClusterServers, binaries

from interlock import ConfigError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import RedisServer

VERSION = "valkey-9.1"


@pytest.fixture(scope="module")
def cluster(request: pytest.FixtureRequest) -> Iterator[ClusterServers]:
    config = {"cluster-databases": 4}
    with ClusterServers(
        binary=binaries()[request.param], replicas=False, node_timeout=20, config=config
    ) as servers:
        yield servers


def keys(node: RedisServer) -> list[object]:
    with node.client() as client:
        return list(client.scan_iter())


of_valkey_9 = pytest.mark.parametrize("cluster", [VERSION], indirect=True)


@of_valkey_9
def test_every_object_works_in_another_database(cluster: ClusterServers) -> None:
    """Each object does everything in database 2, and leaves no key in database 0."""
    do_everything(lambda _: cluster.url(db=2))
    assert [key for node in cluster.nodes for key in keys(node)] == []


@of_valkey_9
async def test_one_name_in_two_databases(cluster: ClusterServers, face: Face) -> None:
    """One name in two databases is two locks, and a release wakes the waiter of its own one."""
    with cluster.nodes[0].client() as first:
        async with Stage(face, KINDS[0], cluster.url(db=1), first) as stage:
            one, other = stage.client(), stage.client(cluster.url(db=3))
            rival = stage.client()
            ours, theirs = one.lock("name"), other.lock("name")
            owner, waiter = stage.owner(), stage.owner()
            assert await owner.do(ours.acquire)
            assert await owner.do(theirs.acquire, timeout=0)
            waiting = asyncio.create_task(waiter.do(rival.lock("name").acquire, timeout=30))
            await queued(rival)
            await owner.do(theirs.release)
            assert await owner.do(ours.owned)
            await owner.do(ours.release)
            assert await asyncio.wait_for(waiting, 20)
            with pytest.raises(ConfigError, match="a member twice"):
                one.multi_lock(one.lock("name"), rival.lock("name"))
            assert one.multi_lock(one.lock("two"), other.lock("two"))
