"""The Sentinel monitor of a client.

It is one thread with one connection. A Sentinel tells it when another server becomes the primary.

Errors alone would tell of it too late. A primary that hangs gives no error for a whole timeout. A
primary that was isolated, or that a manual failover replaced, goes on granting locks for seconds.
"""

from __future__ import annotations

import _thread
import threading
import time
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from interlock._drivers.background.callbacks import outlived
from interlock._links.connection import Connection
from interlock._links.replies import understood
from interlock._links.resp import pack
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

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
        endpoint: the primary. It is told the new address before *left* is called.
        left: called when another server is the primary, however that was noticed.
    """

    def __init__(self, endpoint: SentinelEndpoint, left: Callable[[], None]) -> None:
        self._primary, self._sentinels = endpoint, endpoint.sentinels
        self._reset()
        endpoint.connected, endpoint.left = self._watch, left

    def _reset(self) -> None:
        self._only = threading.Lock()
        self._connection: Connection | None = None
        self._closed = False

    def close(self) -> None:
        """End the thread and the connection."""
        self._closed = True
        connection = self._connection
        if connection is not None:
            connection.shutdown()

    def after_fork(self) -> None:
        """Reset everything in a forked child; close the parent's connection, but send nothing."""
        connection = self._connection
        self._reset()
        if connection is not None:
            connection.close()
        self._primary.after_fork()

    def _watch(self) -> None:
        if not (self._only.locked() or self._closed):
            with suppress(RuntimeError):  # too many threads: the next connection tries again
                _ = _thread.start_new_thread(self._run, ())

    def _run(self) -> None:
        if not self._only.acquire(blocking=False):
            return
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
        connection = self._connection = Connection(node, patience)
        try:
            # A client that was closed meanwhile has not seen this connection.
            if not self._closed:
                # Without the right to listen the primary's errors alone tell of another one.
                _ = connection.exchange([pack(("SUBSCRIBE", CHANNEL))], patience)
                self._look_up()
                self._read(connection)
        finally:
            self._connection = None
            connection.close()

    def _look_up(self) -> None:
        with suppress(ServerUnavailableError):  # a message will announce the next one
            address, _ = self._sentinels.look_up()
            self._primary.moved(address)

    def _read(self, connection: Connection) -> None:
        pinged = False
        while not self._closed:
            message: Any = connection.message(PING_INTERVAL)
            if message is None:
                if pinged:
                    return
                connection.send("PING")
            pinged = message is None
            match message:
                case [b"message", _, bytes(payload)]:
                    with understood(self._sentinels.where):
                        self._moved(payload)
                case _:
                    pass

    def _moved(self, payload: bytes) -> None:
        service, _, _, host, port = payload.decode().split(" ")
        if service == self._sentinels.service:
            self._primary.moved((host, int(port)))
