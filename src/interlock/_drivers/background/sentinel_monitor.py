"""The Sentinel monitor of a client.

It is one thread. A Sentinel tells it when another server becomes the primary.

Errors alone would tell of it too late. A primary that hangs gives no error for a whole timeout. A
primary that was isolated, or that a manual failover replaced, goes on granting locks for seconds.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._drivers.background.subscriber import NodeSubscriber
from interlock._drivers.process.mutex import Mutex
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._links.sentinel_endpoint import SentinelEndpoint

CHANNEL = "+switch-master"


class SentinelMonitor(NodeSubscriber):
    """Tells an endpoint where the primary has moved.

    It starts with the first connection to a primary. It notices when its Sentinel is silent, and
    turns to another one. At each subscription it asks where the primary is: it may have missed a
    message.

    Args:
        endpoint: the primary. It is told the new address before *left* is called.
        timeout: seconds for connecting to a Sentinel.
        left: called when another server is the primary, however that was noticed.
    """

    def __init__(
        self, endpoint: SentinelEndpoint, timeout: float, left: Callable[[], None]
    ) -> None:
        super().__init__(endpoint.sentinels, timeout, Mutex())
        self._primary = endpoint
        endpoint.connected, endpoint.left = self._watch, left

    def after_fork(self) -> None:
        """Reset everything in a forked child."""
        self.drop(Mutex())
        self._primary.after_fork()

    def _watch(self) -> None:
        if CHANNEL not in self.wanted or not self.running:
            self.subscribe(CHANNEL)

    def _heard(self, channel: str, payload: bytes | None) -> None:
        del channel
        sentinels = self._primary.sentinels
        if payload is None:
            try:
                address = sentinels.look_up(self._timeout)
            except ServerUnavailableError:
                return  # no primary is known now; a message will announce the next one
        else:
            service, _, _, host, port = payload.decode().split(" ")
            if service != sentinels.service:
                return
            address = (sentinels.host or host, int(port))
        self._primary.moved(address)
