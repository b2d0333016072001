"""Renewal in a cluster: each node renews its own holds."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from tests.lock.lock_like import renewed

from interlock._links.slots import slot_of

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.servers import ClusterServers, RedisServer

EACH = 5


async def test_each_node_renews_its_own_holds(plain: Stage, cluster: ClusterServers) -> None:
    """A round sends every hold to the node that has it, in a thread and over a connection of that node."""
    names: dict[RedisServer, list[str]] = {}
    number = 0
    while len(names) < 3 or min(map(len, names.values())) < EACH:
        names.setdefault(cluster.owner(slot_of(f"name {number}")), []).append(f"name {number}")
        number += 1
    client, owner = plain.client(lease=3), plain.owner()
    holds = []
    for those in names.values():
        for name in those[:EACH]:
            lock = client.lock(name)
            assert await owner.do(lock.acquire)
            holds.append(await owner.do(lambda lock=lock: lock.hold))
    for node in names:
        node.execute("CONFIG", "RESETSTAT")
    await renewed(*holds)
    for node in names:
        with node.client() as seen:
            assert seen.info("commandstats")["cmdstat_evalsha"]["calls"] >= EACH
            assert "errorstat_MOVED" not in seen.info("errorstats")
    threads = [thread.name for thread in threading.enumerate()]
    assert threads.count("interlock-renewer-node") >= len(names)
    for hold in holds:
        await owner.do(hold.release)
