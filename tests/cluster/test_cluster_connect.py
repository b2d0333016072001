"""How a client comes to a cluster, and what is wrong is said."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import wait_until
from tests.support.servers import RedisServer, main_binary

import interlock
from interlock import ConfigError, ServerUnavailableError
from interlock._links.replies import RedirectedError

if TYPE_CHECKING:
    from tests.objects.awaited import Face, Stage
    from tests.support.servers import ClusterServers


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


async def test_from_redis(plain: Stage, cluster: ClusterServers, library: Any) -> None:
    """A cluster client of redis-py or valkey-py gives the nodes and the address remapping."""
    told: list[Any] = []

    def remap(address: Any) -> Any:
        told.append(address)
        return address

    configured = library.RedisCluster(
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


async def test_a_node_taken_for_a_server(plain: Stage, cluster: ClusterServers) -> None:
    """A client that takes a node of a cluster for a single server is told what to do."""
    owner = plain.owner()
    client = plain.client(cluster.nodes[0].url())
    with pytest.raises(ServerUnavailableError, match=r"redis\+cluster") as caught:
        for number in range(20):
            assert await owner.do(client.lock(f"name {number}").acquire, timeout=0)
    assert caught.value.code == "MOVED"


@pytest.mark.parametrize(
    "kind",
    [
        *("lock", "fair_lock", "fenced_lock", "spin_lock", "read_write_lock", "condition"),
        *("semaphore", "leased_semaphore", "count_down_latch", "event", "election"),
    ],
)
def test_a_name_whose_keys_would_be_in_several_slots(kind: str) -> None:
    """Each object of a cluster client refuses such a name at creation, without a round trip.

    A client of one server accepts it.
    """
    with (
        interlock.connect("redis+cluster://localhost:1") as client,
        pytest.raises(ConfigError, match="a}b"),
    ):
        getattr(client, kind)("a}b")
    with interlock.connect("redis://localhost:1") as client:
        getattr(client, kind)("a}b")


@pytest.mark.parametrize("kind", ["hostname", "unknown-endpoint"])
async def test_a_host_that_is_not_known(face: Face, kind: str) -> None:
    """A node announces a question mark if it lacks a name, or nothing at all if it has to.

    Then it is reached where it was asked.
    """
    config = {"cluster-enabled": "yes", "cluster-preferred-endpoint-type": kind}
    with RedisServer(main_binary(), config=config) as server:
        server.execute("CLUSTER", "ADDSLOTSRANGE", 0, 16383)
        wait_until(lambda: b"ok" in server.execute("CLUSTER", "INFO"), 30, "the cluster is up")
        [[_, _, [host, *_]]] = server.execute("CLUSTER", "SLOTS")
        assert host == (b"?" if kind == "hostname" else None)
        client = face.module.connect(f"redis+cluster://127.0.0.1:{server.port}")
        owner, lock = face.owner(), client.lock("name")
        assert await owner.do(lock.acquire, timeout=30)
        await owner.do(lock.release)
        await owner.do(client.close)
        await owner.end()


@pytest.mark.parametrize("host", ["", "?"])
def test_a_redirection_to_it(host: str) -> None:
    """The same is true of a node that another one names."""
    assert RedirectedError(f"MOVED 1 {host}:7001", "db.example:7000").address == (
        "db.example",
        7001,
    )
