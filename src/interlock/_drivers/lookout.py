"""The look-out of a client under Sentinel: one thread that hears from a Sentinel when another server becomes the primary.

Errors alone would find it too, where there are any: a primary that hangs gives none for a whole time-out, and one that was
isolated, or that a manual failover replaced, goes on granting locks for seconds.
"""

from __future__ import annotations

import threading
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock._core.waiters import Waiters
from interlock._drivers.listener import Listener
from interlock._links.sentinel_endpoint import SentinelEndpoint
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from interlock._links.cluster import Cluster
    from interlock._links.endpoint import Endpoint

CHANNEL = "+switch-master"


class Lookout(Listener):
    """Tells an endpoint where the primary has moved.

    It starts with the first connection to a primary, and is then what a listener is, for a Sentinel's channel: silence of the
    Sentinel is noticed, another one is turned to, and whoever becomes heard is asked what was missed.

    Args:
        endpoint: what to tell.
        timeout: seconds for connecting to a Sentinel.
    """

    def __init__(self, endpoint: SentinelEndpoint, timeout: float) -> None:
        super().__init__(endpoint.sentinels, timeout)
        self.waiters = Waiters(threading.Lock(), self)
        self._primary = endpoint
        endpoint.connected = self._start

    def after_fork(self) -> None:
        """Be as new in a forked child."""
        super().after_fork()
        self._primary.after_fork()

    def _start(self) -> None:
        if CHANNEL not in self._wanted:
            self.subscribe(CHANNEL)

    def _heard(self, channel: str, payload: bytes | None) -> None:
        del channel
        if payload is None:
            # Between two primaries there is nothing to be told; the message that ends that will be heard.
            with suppress(ServerUnavailableError):
                self._primary.recheck(self._timeout)
            return
        service, _, _, host, port = payload.decode().split(" ")
        if service == self._primary.sentinels.service:
            self._primary.moved((self._primary.sentinels.host or host, int(port)))


def lookout_for(servers: Endpoint | Cluster, timeout: float) -> Lookout | None:
    """Return the look-out that *servers* need, if they need one."""
    return Lookout(servers, timeout) if isinstance(servers, SentinelEndpoint) else None
