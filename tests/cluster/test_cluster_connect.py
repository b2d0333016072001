"""How a client comes to a cluster, and what is wrong is said."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

import pytest
import redis
import redis.asyncio

from interlock import ConfigError, ServerUnavailableError

if TYPE_CHECKING:
    from tests.lock.lock_like import Face, Stage
    from tests.support.servers import ClusterServers, RedisServer


async def _take(stage: Stage, client: Any) -> None:
    owner = stage.owner()
    for number in range(12):
        lock = client.lock(f"name {number}")
        assert await owner.do(lock.acquire, timeout=5)
        await owner.do(lock.release)


async def test_one_node_is_enough(plain: Stage, cluster: ClusterServers) -> None:
    """Any one node is enough to find the others, even a replica; a named node may be down."""
    for ports in ([cluster.nodes[2].port], [cluster.nodes[4].port], [1, cluster.nodes[0].port]):
        await _take(
            plain,
            plain.client("redis+cluster://" + ",".join(f"127.0.0.1:{port}" for port in ports)),
        )


@pytest.mark.parametrize("module", [redis, redis.asyncio], ids=["redis", "redis.asyncio"])
async def test_from_redis(plain: Stage, cluster: ClusterServers, module: Any) -> None:
    """A redis-py cluster client, of either kind, gives the nodes and the address remapping."""
    told: list[Any] = []

    def remap(address: Any) -> Any:
        told.append(address)
        return address

    configured = module.RedisCluster(
        host="127.0.0.1", port=cluster.nodes[0].port, address_remap=remap
    )
    try:
        client = plain.face.module.Client.from_redis(configured, lease=7)
        told.clear()
        await _take(plain, client)
        await plain.close(client)
        assert told
    finally:
        closed = configured.aclose() if hasattr(configured, "aclose") else configured.close()
        if inspect.isawaitable(closed):
            await closed


@pytest.mark.parametrize(
    ("url", "why"),
    [
        ("redis+cluster://localhost:1/one", "number of a database"),
        ("redis+cluster://localhost:1,", "host"),
        ("redis+cluster://localhost:1?nonsense=1", "nonsense"),
        ("redis+cluster://user:secret@localhost:x", "port"),
    ],
)
def test_urls_that_cannot_work(face: Face, url: str, why: str) -> None:
    """They are refused at once, without the password."""
    with pytest.raises(ConfigError, match=why) as caught:
        face.module.connect(url)
    assert "secret" not in str(caught.value)


async def test_a_database_of_a_cluster_without_databases(
    plain: Stage, cluster: ClusterServers
) -> None:
    """Before Valkey 9, clusters have one database; the error says so."""
    lock, owner = plain.client(cluster.url(db=1)).lock("name"), plain.owner()
    with pytest.raises(ServerUnavailableError, match="Valkey 9") as caught:
        await owner.do(lock.acquire, timeout=12)
    assert caught.value.code == "DATABASE"


async def test_no_cluster_at_all(plain: Stage, server: RedisServer) -> None:
    """A server that is in no cluster is named so."""
    lock, owner = (
        plain.client(f"redis+cluster://127.0.0.1:{server.port}").lock("name"),
        plain.owner(),
    )
    with pytest.raises(ConfigError, match="redis://"):
        await owner.do(lock.acquire, timeout=5)


async def test_nobody_there(plain: Stage) -> None:
    """Nodes that cannot be reached the first time are a mistake, said at once."""
    lock, owner = (
        plain.client("redis+cluster://127.0.0.1:1,127.0.0.1:2").lock("name"),
        plain.owner(),
    )
    with pytest.raises(ServerUnavailableError) as caught:
        await asyncio.wait_for(owner.do(lock.acquire, timeout=30), 10)
    assert not caught.value.transient


async def test_a_node_taken_for_a_server(plain: Stage, cluster: ClusterServers) -> None:
    """A client that takes a node of a cluster for a single server is told what to do."""
    owner = plain.owner()
    client = plain.client(cluster.nodes[0].url())
    with pytest.raises(ServerUnavailableError, match=r"redis\+cluster") as caught:
        for number in range(20):
            assert await owner.do(client.lock(f"name {number}").acquire, timeout=0)
    assert caught.value.code == "MOVED"
