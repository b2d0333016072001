"""The subscriber of a client with threads: one connection and one thread that wakes the waiters.

Rules:

* Pub/sub is a hint. Whatever goes wrong here ends in the waiters looking for themselves: a confirmed (re)subscription counts
  as a message, and while there is no connection they poll.
* The connection is opened for the first waiter and tells the server of every channel as it gains its first waiter and loses
  its last one.
* A connection that is silent for two ping intervals is dead, whatever the kernel thinks of it.
"""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, cast

from interlock._drivers import clock
from interlock._drivers.lifecycle import report
from interlock._links.connection import Connection
from interlock._links.resp import ReplyError
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from interlock._core.waiters import Waiters
    from interlock._links.endpoint import Origin
    from interlock.options import PubSub

PING_INTERVAL = 5.0
FIRST_PAUSE = 0.05
LONGEST_PAUSE = 2.0


class Listener:
    """Subscribes for the waiters of one client.

    Args:
        endpoint: where to connect.
        timeout: seconds for connecting.
        sharded: use the sharded kind of channels.

    Attributes:
        waiters: who is woken.
        hearing: False while there is no connection.
    """

    waiters: Waiters

    def __init__(self, endpoint: Origin, timeout: float, *, sharded: bool = False) -> None:
        self._endpoint = endpoint
        self._timeout = timeout
        self.hearing = False
        kind = "S" if sharded else ""
        self._subscribe, self._unsubscribe = f"{kind}SUBSCRIBE", f"{kind}UNSUBSCRIBE"
        self._confirmed = self._subscribe.lower().encode()
        self._reset()

    def _reset(self) -> None:
        self._mutex = threading.Lock()
        self._wanted: set[str] = set()
        self._connection: Connection | None = None
        self._thread: threading.Thread | None = None
        self._wanted_some = threading.Event()
        self._closed = threading.Event()

    def publish(self, pubsub: PubSub) -> str:
        """Return the command that those who listen here are told by: with one server there is nothing to decide."""
        del pubsub
        return "PUBLISH"

    def subscribe(self, channel: str) -> None:
        """Want messages of *channel*; returns at once."""
        with self._mutex:
            self._wanted.add(channel)
            if self._closed.is_set():
                return
            if self._thread is None:
                self._thread = threading.Thread(
                    target=self._run, name="interlock-listener", daemon=True
                )
                self._thread.start()
            self._wanted_some.set()
            self._send(self._subscribe, channel)

    def unsubscribe(self, channel: str) -> None:
        """Want no more messages of *channel*; returns at once."""
        with self._mutex:
            self._wanted.discard(channel)
            self._send(self._unsubscribe, channel)

    def close(self) -> None:
        """End the thread and the connection."""
        self._closed.set()
        self._wanted_some.set()
        with self._mutex:
            if self._connection is not None:
                self._connection.shutdown()
            thread = self._thread
        if thread is not None and thread is not threading.current_thread():
            thread.join(self._timeout + 1)

    def after_fork(self) -> None:
        """Be as new in a forked child; the parent's connection is closed without a word."""
        connection = self._connection
        self._reset()
        if connection is not None:
            connection.close()

    def _send(self, command: str, channel: str) -> None:
        if self._connection is None:
            return  # the next connection subscribes to all that is wanted
        try:
            self._connection.send(command, channel)
        except OSError:
            self._connection.shutdown()  # the thread sees it and connects anew

    def _run(self) -> None:
        pause = FIRST_PAUSE
        while not self._closed.is_set():
            self._wanted_some.wait()
            began = clock.now()
            try:
                self._listen()
            except InterlockError as error:
                self._failed(error)
                # Waiters poll meanwhile. The commands of the client report what is wrong with the server.
                if clock.now() - began > LONGEST_PAUSE:
                    pause = FIRST_PAUSE
                self._closed.wait(pause)
                pause = min(pause * 2, LONGEST_PAUSE)
            except Exception as error:  # noqa: BLE001 - the listener must outlive any surprise
                report("the listener thread", error)
                self._closed.wait(LONGEST_PAUSE)

    def _listen(self) -> None:
        connection = Connection(self._endpoint, self._timeout)
        try:
            connection.set_timeout(PING_INTERVAL)
            with self._mutex:
                if self._closed.is_set():
                    return
                self._connection = connection
                for channel in self._wanted:
                    self._send(self._subscribe, channel)
            self._hear(True)
            self._read(connection)
        finally:
            self._hear(False)
            with self._mutex:
                self._connection = None
                if not self._wanted and not self._closed.is_set():
                    self._wanted_some.clear()
            connection.close()

    def _hear(self, hearing: bool) -> None:
        """Note whether there is a connection."""
        self.hearing = self.waiters.hearing = hearing

    def _failed(self, error: InterlockError) -> None:
        """Note that there was no connection, or is none any more."""

    def _refused(self, error: Exception) -> None:
        """Note that the server answered by an error: a channel that this user may not hear; who waits there polls."""

    def _ended(self, channel: str) -> None:
        """Note that the server sends no messages of *channel* any more."""

    def _read(self, connection: Connection) -> None:
        heard_at = clock.now()
        while not self._closed.is_set():
            try:
                message = connection.receive()
            except TimeoutError:
                if clock.now() - heard_at > 2 * PING_INTERVAL:
                    return
                with self._mutex:
                    connection.send("PING")
                continue
            heard_at = clock.now()
            if isinstance(message, ReplyError):
                self._refused(message)
                continue
            kind, channel, *rest = cast("list[bytes]", message)
            if kind == self._confirmed:
                self._heard(channel.decode(), None)
            elif kind in (b"message", b"smessage"):
                self._heard(channel.decode(), rest[0])
            elif kind == b"sunsubscribe":
                self._ended(channel.decode())

    def _heard(self, channel: str, payload: bytes | None) -> None:
        """Pass a message on; None instead of one tells that the channel is heard from now on."""
        del payload
        self.waiters.notify(channel)


class Silence:
    """No messages at all: waiters poll, and nobody is told anything."""

    waiters: Waiters

    def publish(self, pubsub: PubSub) -> str:
        """Return no command."""
        del pubsub
        return ""

    def subscribe(self, channel: str) -> None:
        """Do nothing."""

    def unsubscribe(self, channel: str) -> None:
        """Do nothing."""

    def close(self) -> None:
        """Do nothing."""

    def after_fork(self) -> None:
        """Do nothing."""
