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

from interlock._drivers.background.callbacks import report_aside
from interlock._drivers.process import clock
from interlock._links.connection import Connection
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._links.sentinel_endpoint import SentinelEndpoint

CHANNEL = "+switch-master"
PING_INTERVAL = 5.0
FIRST_PAUSE, LONGEST_PAUSE = 0.05, 2.0


class SentinelMonitor:
    """Tells an endpoint where the primary has moved.

    It starts with the first connection to a primary. It notices when its Sentinel is silent, and
    turns to another one. At each subscription it asks where the primary is: it may have missed a
    message. A connection that is silent for two ping intervals is dead, even if the kernel says
    otherwise.

    Args:
        endpoint: the primary. It is told the new address before *left* is called.
        timeout: seconds for connecting to a Sentinel.
        left: called when another server is the primary, however that was noticed.
    """

    def __init__(
        self, endpoint: SentinelEndpoint, timeout: float, left: Callable[[], None]
    ) -> None:
        self._primary, self._endpoint, self._timeout = endpoint, endpoint.sentinels, timeout
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
        pause = FIRST_PAUSE
        while not self._closed:
            began = clock.now()
            try:
                self._listen()
            except InterlockError:
                pass  # if something is wrong with the server, the commands of the client report it
            except Exception as error:  # noqa: BLE001 - the thread must outlive any surprise
                report_aside("the Sentinel monitor", error)
            if clock.now() - began > LONGEST_PAUSE:
                pause = FIRST_PAUSE
            if not self._closed:
                time.sleep(pause)
            pause = min(pause * 2, LONGEST_PAUSE)

    def _listen(self) -> None:
        connection = self._connection = Connection(self._endpoint, self._timeout)
        try:
            if not self._closed:
                connection.send("SUBSCRIBE", CHANNEL)
                self._read(connection)
        finally:
            self._connection = None
            connection.close()

    def _read(self, connection: Connection) -> None:
        self._heard_at = asked_at = clock.now()
        while not self._closed:
            self._take(connection.message(PING_INTERVAL))
            now = clock.now()
            if now - self._heard_at > 2 * PING_INTERVAL:
                return
            if now - max(self._heard_at, asked_at) >= PING_INTERVAL:
                asked_at = now
                connection.send("PING")

    def _take(self, message: Any) -> None:
        """Handle a reply or message, or None, or the server's error."""
        if message is None or isinstance(message, Exception):
            return  # without the right to listen it is told by errors alone
        self._heard_at = clock.now()
        match message:
            case [b"message", _, bytes(payload)]:
                self._moved(payload)
            case [b"subscribe", *_]:
                self._look_up()
            case _:
                pass

    def _look_up(self) -> None:
        try:
            address = self._primary.sentinels.look_up(self._timeout)
        except ServerUnavailableError:
            return  # no primary is known now; a message will announce the next one
        self._primary.moved(address)

    def _moved(self, payload: bytes) -> None:
        sentinels = self._primary.sentinels
        service, _, _, host, port = payload.decode().split(" ")
        if service == sentinels.service:
            self._primary.moved((sentinels.host or host, int(port)))
