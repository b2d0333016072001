"""Replicas under Sentinel and in a cluster: the granting node's are asked, and help if it dies."""

from __future__ import annotations

import pytest
from redis.crc import key_slot
from tests.objects.awaited import Face, Stage, until
from tests.objects.kinds import named
from tests.support.patience import GIVE_UP
from tests.support.servers import ClusterServers, RedisServer, SentinelServers

import interlock
from interlock import ReplicationError


def _has(server: RedisServer, name: str) -> bool:
    return server.execute("HLEN", name) == 1


@pytest.mark.promise("failover")
async def test_a_required_lock_survives_its_primary(face: Face) -> None:
    """Whichever replica is promoted has a lock that all had acknowledged."""
    with SentinelServers() as servers:
        stage = Stage(face, named("lock"), servers.url(), None)
        me, you = stage.owner(), stage.owner()
        lock = stage.lock(stage.client(replicas=interlock.required("all", 9)))
        theirs = stage.lock(stage.client())
        assert await me.do(lock.acquire)
        old = servers.primary
        old.kill()
        new = servers.wait_for_promotion(old)
        assert _has(new, "name")
        assert await you.do(theirs.locked)
        assert not await you.do(theirs.acquire, timeout=1)
        assert (await me.do(lambda: lock.hold)).valid
        await me.do(lock.release)
        assert await you.do(theirs.acquire, timeout=10)
        await you.do(theirs.release)
        await stage.end()


async def test_each_node_of_a_cluster_asks_its_own_replicas(face: Face) -> None:
    """In a cluster the granting node's replicas are asked; those of others may stand still."""
    with ClusterServers(node_timeout=20) as servers:
        stage = Stage(face, named("lock"), servers.url(), None)
        client = stage.client(replicas=interlock.required("all", 9))
        hasty, me = stage.client(replicas=interlock.required("all", 0.5)), stage.owner()
        owners = {name: servers.owner(key_slot(name.encode())) for name in "abcdefgh"}
        first = next(name for name, node in owners.items() if node is servers.nodes[0])
        second = next(name for name, node in owners.items() if node is servers.nodes[1])
        for name in (first, second):
            assert await me.do(client.lock(name).acquire)
            assert (await me.do(lambda name=name: client.lock(name).hold)).replicas == 1
            await me.do(client.lock(name).release)
        servers.nodes[3].pause()  # the replica of the first primary
        with pytest.raises(ReplicationError, match="0 of 1 replicas"):
            await me.do(hasty.lock(first).acquire)
        assert await me.do(client.lock(second).acquire)
        await me.do(client.lock(second).release)
        servers.nodes[3].resume()
        for node in servers.nodes[:3]:
            await until(lambda node=node: node.execute("DBSIZE") == 0, GIVE_UP, "all is given back")
        await stage.end()
