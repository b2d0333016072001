"""What the drivers reach their servers by: the one place that knows whether that is one server or a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._drivers.cluster_keeper import ClusterKeeper
from interlock._drivers.cluster_listener import ClusterListener
from interlock._drivers.keeper import Keeper
from interlock._drivers.listener import Listener, Silence
from interlock._links.cluster import Cluster
from interlock._links.cluster_line import ClusterLine
from interlock._links.cluster_pool import ClusterPool
from interlock._links.courier import Courier
from interlock._links.line import Line
from interlock._links.pool import Pool
from interlock.errors import ConfigError

if TYPE_CHECKING:
    from interlock._core.session import Session
    from interlock._links.endpoint import Endpoint
    from interlock.options import Options


def pool_to(servers: Endpoint | Cluster) -> Pool | ClusterPool:
    """Return what threads send by."""
    return ClusterPool(servers) if isinstance(servers, Cluster) else Pool(servers)


def line_to(servers: Endpoint | Cluster, timeout: float) -> Line | ClusterLine:
    """Return what tasks send by; *timeout* seconds without an answer end a connection."""
    return ClusterLine(servers, timeout) if isinstance(servers, Cluster) else Line(servers, timeout)


def keeper_of(session: Session, servers: Endpoint | Cluster, timeout: float) -> Keeper:
    """Return what keeps the holds of *session*; *timeout* seconds for one reply."""
    if isinstance(servers, Cluster):
        return ClusterKeeper(session, servers, timeout)
    return Keeper(session, Courier(servers), timeout)


def listener_to(
    servers: Endpoint | Cluster, options: Options, timeout: float
) -> Listener | ClusterListener | Silence:
    """Return where channels are subscribed to; *timeout* seconds for connecting.

    Raises:
        ConfigError: sharded channels, which Redisson uses in a cluster only.
    """
    if options.pubsub == "off":
        return Silence()
    if isinstance(servers, Cluster):
        return ClusterListener(servers, timeout)
    if options.pubsub == "sharded":
        raise ConfigError('sharded channels need a cluster (redis+cluster://): use pubsub="auto"')
    return Listener(servers, timeout)
