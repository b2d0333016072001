"""What a test sees of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import redis

if TYPE_CHECKING:
    from tests.support.servers import ClusterServers


def eyes(servers: ClusterServers) -> redis.RedisCluster:
    """Return a client by which a test sees what is in the cluster."""
    return redis.RedisCluster(host="127.0.0.1", port=servers.nodes[0].port)
