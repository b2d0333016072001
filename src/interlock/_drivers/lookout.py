"""The look-out of a client under Sentinel: one thread that hears from a Sentinel when another server becomes the primary.

Errors alone would find it too, where there are any: a primary that hangs gives none for a whole time-out, and one that was
isolated, or that a manual failover replaced, goes on granting locks for seconds.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING

from interlock._core.waiters import Waiters
from interlock._drivers.listener import Listener
from interlock._links.sentinel_endpoint import SentinelEndpoint
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint

CHANNEL = "+switch-master"


class Lookout(Listener):
    """Tells an endpoint where the primary has moved.

    It starts with the first connection to a primary, and is then what a listener is, for a Sentinel's channel: silence of the
    Sentinel is noticed, another one is turned to, and whoever becomes heard is asked what was missed.

    Args:
        endpoint: what to tell first.
        timeout: seconds for connecting to a Sentinel.
        left: called when another server is the primary, however that was found out.
    """

    def __init__(
        self, endpoint: SentinelEndpoint, timeout: float, left: Callable[[], None]
    ) -> None:
        super().__init__(endpoint.sentinels, timeout)
        self.waiters = Waiters(threading.Lock(), self)
        self._primary = endpoint
        endpoint.connected, endpoint.left = self._start, left

    def after_fork(self) -> None:
        """Be as new in a forked child."""
        super().after_fork()
        self._primary.after_fork()

    def _start(self) -> None:
        if CHANNEL not in self._wanted:
            self.subscribe(CHANNEL)

    def _heard(self, channel: str, payload: bytes | None) -> None:
        del channel
        sentinels = self._primary.sentinels
        if payload is None:
            try:
                address = sentinels.look_up(self._timeout)
            except ServerUnavailableError:
                return  # between two primaries; the message that ends that will be heard
        else:
            service, _, _, host, port = payload.decode().split(" ")
            if service != sentinels.service:
                return
            address = (sentinels.host or host, int(port))
        self._primary.moved(address)


def lookout_for(
    servers: Endpoint | Cluster, timeout: float, left: Callable[[], None]
) -> Lookout | None:
    """Return the look-out that *servers* need, if they need one."""
    return Lookout(servers, timeout, left) if isinstance(servers, SentinelEndpoint) else None
