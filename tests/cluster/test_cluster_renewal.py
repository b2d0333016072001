"""Renewal in a cluster: each node renews its own holds."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from tests.cluster.seen import names_by_node
from tests.objects.awaited import renewed

if TYPE_CHECKING:
    from tests.objects.awaited import Owner, Stage
    from tests.support.servers import ClusterServers

EACH = 5


async def _held(client: Any, owner: Owner, name: str) -> Any:
    lock = client.lock(name)
    assert await owner.do(lock.acquire)
    return await owner.do(lambda: lock.hold)


async def test_each_node_renews_its_own_holds(plain: Stage, cluster: ClusterServers) -> None:
    """A round sends each hold to its node, in a thread and over a connection of that node."""
    names = names_by_node(cluster, EACH)
    client, owner = plain.client(renewed="soon"), plain.owner()
    holds = [await _held(client, owner, name) for those in names.values() for name in those]
    for node in names:
        node.execute("CONFIG", "RESETSTAT")
    for _ in range(2):  # a reply to a renewal from before may come after it
        await renewed(*holds)
    for node in names:
        with node.client() as seen:
            assert seen.info("commandstats")["cmdstat_evalsha"]["calls"] >= EACH
            assert "errorstat_MOVED" not in seen.info("errorstats")
    # Two threads that share a connection mix up replies when one follows a slot that has moved.
    lanes = client._driver._upkeep._lanes.values()
    assert len({id(lane._pool) for lane in lanes}) == len(lanes) == len(names)
    for hold in holds:
        await owner.do(hold.release)


async def test_a_node_that_hangs_delays_no_renewal_on_others(
    plain: Stage, cluster: ClusterServers
) -> None:
    """While one node answers nothing, holds on others are renewed, and none is told to be lost."""
    names = names_by_node(cluster, 1)
    # A renewal that waited for the node would be late for longer than `renewed` waits.
    client = plain.client(lease=300, command_timeout=120, renewed="soon")
    owner = plain.owner()
    holds = [await _held(client, owner, name) for [name] in names.values()]
    await renewed(*holds)
    slow, *others = holds
    hanging = next(iter(names))
    hanging.pause()
    try:
        await renewed(*others)
        left = slow.remaining
        for _ in range(3):
            await renewed(*others)
        assert slow.remaining < left
        assert all(hold.valid for hold in holds)
    finally:
        hanging.resume()
    await renewed(*holds)
    for hold in holds:
        await owner.do(hold.release)
