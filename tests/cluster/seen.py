"""What a test sees of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import redis

from interlock._links.topology import slot_of

if TYPE_CHECKING:
    from tests.support.servers import ClusterServers, RedisServer


def eyes(servers: ClusterServers) -> redis.RedisCluster:
    """Return a client by which a test sees what is in the cluster."""
    return redis.RedisCluster(host="127.0.0.1", port=servers.nodes[0].port)


def names_by_node(servers: ClusterServers, count: int) -> dict[RedisServer, list[str]]:
    names: dict[RedisServer, list[str]] = {}
    number = 0
    while len(names) < 3 or min(map(len, names.values())) < count:
        names.setdefault(servers.owner(slot_of(f"name {number}")), []).append(f"name {number}")
        number += 1
    return {node: those[:count] for node, those in names.items()}


def route(servers: ClusterServers, name: str) -> tuple[int, RedisServer, RedisServer]:
    """Return the slot of *name*, who serves it, and a primary that does not."""
    slot = slot_of(name)
    source = servers.owner(slot)
    return slot, source, next(node for node in servers.nodes[:3] if node is not source)
