"""Blocking connections shared by threads, last in first out, so that few of them are busy and warm."""

from __future__ import annotations

import threading
import time
import weakref
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING

from interlock._links.connection import Connection
from interlock._links.replies import left
from interlock.errors import ClosedError, InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.effects import Eval
    from interlock._links.endpoint import Endpoint
    from interlock.options import PubSub

MAX_CONNECTIONS = 100
DRAIN_TIMEOUT = 0.1
"""Seconds that an interrupted command's reply is waited for before its connection is closed."""


class Pool:
    """The connections of one client to one server."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._limit = endpoint.max_connections or MAX_CONNECTIONS
        self._idle: deque[Connection] = deque()
        self._change = threading.Condition()
        # Weak: one that a Ctrl-C lets drop between two steps is no longer open, and nobody waits for it.
        self._open: weakref.WeakSet[Connection] = weakref.WeakSet()
        self._opening = 0
        self._wanting = 0
        self._closed = False

    def eval(self, call: Eval[object], timeout: float) -> object:
        """Run *call* on any connection; errors as `Connection.eval`, and ReplicationError."""
        if call.confirm is not None:
            [reply] = self.batch([call], timeout)
            if isinstance(reply, InterlockError):
                raise reply
            return reply
        try:
            connection = self._idle.pop()
        except IndexError:
            connection = self._take(timeout)
        try:
            reply = connection.eval(call, timeout)
        except BaseException as error:
            self.failed(connection, error)
            raise
        self._idle.append(connection)
        if self._wanting or self._closed:
            self._given()
        return reply

    def ask(self, call: Eval[object], timeout: float) -> object:
        """Run *call* on a node that is just taking its slot over; errors as `Connection.ask`."""
        connection = self._take(timeout)
        try:
            reply = connection.ask(call, timeout)
        except BaseException as error:
            self.failed(connection, error)
            raise
        self.take_back(connection)
        if isinstance(reply, InterlockError):
            raise reply
        return reply

    def open(self, pubsub: PubSub, timeout: float) -> None:
        """Do nothing: there is nothing to learn of one server before the first command."""

    def serving(self, call: Eval[object]) -> Pool:
        """Return the pool to send *call* to: this one."""
        del call
        return self

    def after(self, call: Eval[object], failure: ServerUnavailableError, timeout: float) -> object:
        """Go on with *call* after *failure*: there is no other server, so that is what is raised."""
        del call, timeout
        raise failure

    def idle(self) -> Connection | None:
        """Return a connection that can be written to at once, or None; `take_back` wants it again."""
        try:
            return self._idle.pop()
        except IndexError:
            return None

    def take_back(self, connection: Connection) -> None:
        """Take a connection back; one that still owes a reply is closed."""
        if connection.owes:
            self._end(connection)
        else:
            self._idle.append(connection)
            if self._wanting or self._closed:
                self._given()

    def batch(self, calls: Sequence[Eval[object]], timeout: float) -> list[object]:
        """Run *calls* in one write; errors as `Connection.batch`."""
        connection = self._take(timeout)
        try:
            replies = connection.batch(calls, timeout)
        except BaseException as error:
            self.failed(connection, error)
            raise
        self.take_back(connection)
        return replies

    def close(self, timeout: float) -> None:
        """Close the idle connections now and each busy one when it comes back, for at most *timeout* seconds."""
        self._closed = True
        self._given()
        with self._change:
            self._change.wait_for(lambda: not self._open and not self._opening, timeout)

    def forget(self) -> None:
        """Close everything in a forked child, without a word on the wire."""
        self._change = threading.Condition()
        self._drop_idle()
        self._open.clear()
        self._opening = self._wanting = 0

    def _take(self, timeout: float) -> Connection:
        deadline = time.monotonic() + timeout
        with self._change:
            self._wanting += 1
            try:
                while not self._closed:
                    with suppress(IndexError):
                        return self._idle.pop()
                    if len(self._open) + self._opening < self._limit:
                        self._opening += 1
                        break
                    if not self._change.wait(deadline - time.monotonic()):
                        raise ServerUnavailableError(
                            f"all {self._limit} connections to {self._endpoint.where} were busy for "
                            f"{timeout:g} s; raise max_connections",
                            transient=True,
                        )
                else:
                    raise ClosedError("the client is closed")
            finally:
                self._wanting -= 1
        try:
            connection = Connection(self._endpoint, max(deadline - time.monotonic(), 0.001))
            self._open.add(connection)
            return connection
        finally:
            with self._change:
                self._opening -= 1
                self._change.notify()

    def _given(self) -> None:
        """Pass a returned connection on, or close it when the pool is closed."""
        if self._closed:
            self._drop_idle()
        with self._change:
            self._change.notify_all() if self._closed else self._change.notify()

    def failed(self, connection: Connection, error: BaseException) -> None:
        """Take a connection back whose command ended by *error*."""
        answered = isinstance(error, InterlockError) and not (
            getattr(error, "sent", False) or left(error)
        )
        interrupted = not isinstance(error, Exception)
        if answered or (interrupted and connection.drain(DRAIN_TIMEOUT)):
            self._idle.append(connection)
            self._given()
            return
        self._end(connection)
        if isinstance(error, ServerUnavailableError):
            # The others were opened to the same server and have most likely died with it.
            self._drop_idle()

    def _drop_idle(self) -> None:
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return
            self._end(connection)

    def _end(self, connection: Connection) -> None:
        connection.close()
        with self._change:
            self._open.discard(connection)
            self._change.notify_all() if self._closed else self._change.notify()
