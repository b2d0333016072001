"""Each reading of `Options.pubsub` in a cluster."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.awaited import Stage, until

from interlock._links.topology import slot_of

if TYPE_CHECKING:
    from tests.support.servers import ClusterServers, RedisServer

CHANNEL = "redisson_lock__channel:{heard}"


def _heard(cluster: ClusterServers, kind: str) -> list[RedisServer]:
    """Return where somebody listens on the channel: SHARDNUMSUB or NUMSUB."""
    numbers: dict[RedisServer, Any] = {
        node: node.execute("PUBSUB", kind, CHANNEL) for node in cluster.nodes
    }
    return [node for node, reply in numbers.items() if reply[1]]


@pytest.mark.parametrize("pubsub", ["auto", "sharded", "plain", "off"])
async def test_where_a_waiter_listens(plain: Stage, cluster: ClusterServers, pubsub: str) -> None:
    """Sharded channels are heard at the node of the lock's slot, plain ones at any, once.

    With "off" nobody listens, nobody is told, and who waits polls.
    """
    ours, theirs = (plain.client(pubsub=pubsub).lock("heard") for _ in range(2))
    holder, waiter = plain.owner(), plain.owner()
    assert await holder.do(ours.acquire)
    waiting = asyncio.create_task(waiter.do(theirs.acquire, timeout=20))
    if pubsub != "off":
        await until(
            lambda: _heard(cluster, "NUMSUB") or _heard(cluster, "SHARDNUMSUB"), 5, "it is heard"
        )
    await plain.waits()
    sharded, others = _heard(cluster, "SHARDNUMSUB"), _heard(cluster, "NUMSUB")
    await holder.do(ours.release)
    assert await asyncio.wait_for(waiting, 10)
    await waiter.do(theirs.release)
    slots_node = [cluster.owner(slot_of("heard"))]
    assert sharded == (slots_node if pubsub in ("auto", "sharded") else [])
    assert len(others) == (pubsub == "plain")
