"""What the drivers reach their servers by: the one place that knows whether that is one server or a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._drivers.cluster_keeper import ClusterKeeper
from interlock._drivers.keeper import Keeper
from interlock._links.batch_connection import BatchConnection
from interlock._links.cluster import Cluster
from interlock._links.topology import SingleServer

if TYPE_CHECKING:
    from interlock._core.session import Session
    from interlock._links.endpoint import Endpoint


def keeper_of(session: Session, servers: Endpoint | Cluster, timeout: float) -> Keeper:
    """Return what keeps the holds of *session*; *timeout* seconds for one reply."""
    if isinstance(servers, Cluster):
        return ClusterKeeper(session, servers, timeout)
    return Keeper(session, BatchConnection(SingleServer(servers)), timeout)
