"""Each reading of `Options.pubsub` in a cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import Stage, until

from interlock._links.slots import slot_of

if TYPE_CHECKING:
    from tests.support.servers import ClusterServers, RedisServer

CHANNEL = "redisson_lock__channel:{heard}"


def _heard(cluster: ClusterServers, kind: str) -> list[RedisServer]:
    """Return where somebody listens on the channel: SHARDNUMSUB or NUMSUB."""
    numbers: dict[RedisServer, Any] = {
        node: node.execute("PUBSUB", kind, CHANNEL) for node in cluster.nodes
    }
    return [node for node, reply in numbers.items() if reply[1]]


async def _hand_over(
    stage: Stage, cluster: ClusterServers, *, pubsub: str
) -> tuple[list[RedisServer], list[RedisServer]]:
    """Hand a lock to a waiter; return the nodes with sharded and with plain subscribers."""
    client = stage.client(pubsub=pubsub)
    ours, theirs = (
        client.lock("heard"),
        stage.client(pubsub=pubsub).lock("heard"),
    )
    holder, waiter = stage.owner(), stage.owner()
    assert await holder.do(ours.acquire)
    waiting = asyncio.create_task(waiter.do(theirs.acquire, timeout=20))
    if pubsub != "off":
        await until(
            lambda: _heard(cluster, "NUMSUB") or _heard(cluster, "SHARDNUMSUB"), 5, "it is heard"
        )
    await stage.waits()
    places = _heard(cluster, "SHARDNUMSUB"), _heard(cluster, "NUMSUB")
    await holder.do(ours.release)
    assert await asyncio.wait_for(waiting, 10)
    await waiter.do(theirs.release)
    return places


@pytest.mark.parametrize("pubsub", ["auto", "sharded"])
async def test_sharded(plain: Stage, cluster: ClusterServers, pubsub: str) -> None:
    """Sharded channels are used where they exist, and only at the node of the lock's slot."""
    sharded, others = await _hand_over(plain, cluster, pubsub=pubsub)
    assert sharded == [cluster.owner(slot_of("heard"))]
    assert others == []


async def test_plain(plain: Stage, cluster: ClusterServers) -> None:
    """Plain channels are heard at one node, whichever, and released to from any."""
    sharded, others = await _hand_over(plain, cluster, pubsub="plain")
    assert sharded == []
    assert len(others) == 1


async def test_off(plain: Stage, cluster: ClusterServers) -> None:
    """Nobody listens, nobody is told, and who waits polls."""
    sharded, others = await _hand_over(plain, cluster, pubsub="off")
    assert sharded == others == []
