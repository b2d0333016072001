"""The Sentinel monitor of a client.

It is one thread with one connection. A Sentinel tells it when another server becomes the primary.

Errors alone would tell of it too late. A primary that hangs gives no error for a whole timeout. A
primary that was isolated, or that a manual failover replaced, goes on granting locks for seconds.
"""

from __future__ import annotations

import time
from contextlib import closing, suppress
from typing import TYPE_CHECKING, Any

from interlock._drivers.background.callbacks import outlived
from interlock._links.connection import Connection
from interlock._links.replies import understood
from interlock._links.resp import pack
from interlock._links.shared import Shared
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from interlock._links.endpoint import Endpoint
    from interlock._links.sentinel import SentinelEndpoint

CHANNEL = "+switch-master"
PING_INTERVAL = 5.0
PAUSE = 1.0
"""Seconds after which the Sentinels are tried again when all of them were in vain."""


class SentinelMonitor:
    """Tells an endpoint where the primary has moved.

    It starts with the first connection to a primary. It notices when its Sentinel is silent, and
    turns to another one. At each subscription it asks where the primary is: it may have missed a
    message. A connection that is silent for two ping intervals is dead, even if the kernel says
    otherwise.

    Args:
        endpoint: the primary.
    """

    def __init__(self, endpoint: SentinelEndpoint) -> None:
        self._primary, self._sentinels = endpoint, endpoint.sentinels
        self._threads = Shared[None]("interlock-sentinels", here=False)
        self._connection: Connection | None = None
        self._closed = False
        endpoint.connected = self._watch

    def close(self) -> None:
        """End the thread and the connection."""
        self._closed = True
        if self._connection is not None:
            self._connection.shutdown()

    def after_fork(self) -> None:
        """Close the parent's connection in a forked child, but send nothing."""
        if self._connection is not None:
            self._connection.close()
        self._primary.after_fork()

    def _watch(self) -> None:
        if not self._closed:
            # If no thread can start, the next connection tries again.
            _ = self._threads.begin(self, self._run)

    def _run(self) -> None:
        while not self._closed:
            for node in self._sentinels.nodes:
                # If something is wrong with it, the commands of the client report that.
                with outlived("the Sentinel monitor"), suppress(InterlockError):
                    self._listen(node)
            if not self._closed:
                time.sleep(PAUSE)

    def _listen(self, node: Endpoint) -> None:
        """Follow what the Sentinel *node* tells, for as long as it answers."""
        if self._closed:
            return
        patience = self._sentinels.patience
        with closing(Connection(node, patience)) as connection:
            self._connection = connection
            # Without the right to listen the primary's errors alone tell of another one.
            _ = connection.exchange([pack(("SUBSCRIBE", CHANNEL))], patience)
            with suppress(ServerUnavailableError):  # a message will announce the next one
                address, _ = self._sentinels.look_up()
                self._primary.moved(address)
            self._read(connection)

    def _read(self, connection: Connection) -> None:
        # A client that was closed as it connected has not shut it down.
        while not self._closed:
            message: Any = connection.message(PING_INTERVAL)
            if message is None:
                connection.send("PING")
                message = connection.message(PING_INTERVAL)
            match message:
                case None:
                    return
                case [b"message", _, bytes(payload)]:
                    with understood(self._sentinels.where):
                        service, _, _, host, port = payload.decode().split(" ")
                        if service == self._sentinels.service:
                            self._primary.moved((host, int(port)))
                case _:
                    pass
