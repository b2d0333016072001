"""The Sentinel monitor of a client.

It is one thread with one connection. A Sentinel tells it when another server becomes the primary.

Errors alone would tell of it too late. A primary that hangs gives no error for a whole timeout. A
primary that was isolated, or that a manual failover replaced, goes on granting locks for seconds.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from interlock._drivers.process import clock
from interlock._drivers.process.lifecycle import report
from interlock._links.connection import Connection
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._links.sentinel_endpoint import SentinelEndpoint

CHANNEL = "+switch-master"
PING_INTERVAL = 5.0
FIRST_RECONNECT_PAUSE = 0.05
LONGEST_RECONNECT_PAUSE = 2.0


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
        # Reentrant: a signal handler may come in anywhere and use the client.
        self._change = threading.Condition(threading.RLock())
        self._connection: Connection | None = None
        self._thread: threading.Thread | None = None
        # Whether the connection ends because there are newer credentials.
        self._closed = self._at_once = False
        self._heard_at = 0.0

    def log_in_anew(self) -> None:
        """Connect anew if there are newer credentials; a subscribed connection cannot log in.

        Credentials that a server has refused would end the subscription for nothing.
        """
        connection, login = self._connection, self._endpoint.login
        if connection is not None and connection.outdated and login and not login.doubted:
            with self._change:
                if self._connection is connection:  # else it has connected anew by now
                    self._at_once = True
                    connection.shutdown()

    def close(self) -> None:
        """End the thread and the connection."""
        self._closed = True
        if self._endpoint.login is not None:
            self._endpoint.login.leave(self)
        with self._change:
            self._change.notify_all()
            if self._connection is not None:
                self._connection.shutdown()
        thread = self._thread
        if thread is not None and thread.ident and thread is not threading.current_thread():
            thread.join(self._timeout + 1)

    def after_fork(self) -> None:
        """Reset everything in a forked child; close the parent's connection, but send nothing."""
        connection = self._connection
        self._reset()
        if connection is not None:
            connection.close()
        self._primary.after_fork()

    def _watch(self) -> None:
        with self._change:
            if self._thread is not None or self._closed:
                return
            # Noted first: a signal handler that strikes in between must not start another one.
            thread = self._thread = threading.Thread(
                target=self._run, name="interlock-sentinel", daemon=True
            )
            try:
                thread.start()
            except RuntimeError:
                self._thread = None  # too many threads: the next connection tries again

    def _run(self) -> None:
        pause = FIRST_RECONNECT_PAUSE
        while not self._closed:
            began = clock.now()
            try:
                self._listen()
            except InterlockError:
                if self._at_once:
                    pause, self._at_once = FIRST_RECONNECT_PAUSE, False
                    continue
                # If something is wrong with the server, the commands of the client report it.
                if clock.now() - began > LONGEST_RECONNECT_PAUSE:
                    pause = FIRST_RECONNECT_PAUSE
                self._rest(pause)
                pause = min(pause * 2, LONGEST_RECONNECT_PAUSE)
            except Exception as error:  # noqa: BLE001 - the thread must outlive any surprise
                report("the Sentinel monitor", error)
                self._rest(LONGEST_RECONNECT_PAUSE)

    def _rest(self, seconds: float) -> None:
        with self._change:
            _ = self._change.wait_for(lambda: self._closed, seconds)

    def _listen(self) -> None:
        connection = Connection(self._endpoint, self._timeout)
        if self._endpoint.login is not None:
            self._endpoint.login.follow(self)
            if self._closed:
                self._endpoint.login.leave(self)
        try:
            with self._change:
                if self._closed:
                    return
                self._connection, self._at_once = connection, False
            connection.send("SUBSCRIBE", CHANNEL)
            self._read(connection)
        finally:
            with self._change:
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
