"""The open connections to a primary that may move.

Any thread can cut the connections to a former primary.
"""

from __future__ import annotations

import socket
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING, Any, TypeAlias

if TYPE_CHECKING:
    import asyncio

    Loop: TypeAlias = asyncio.AbstractEventLoop

Address = tuple[str, int]
"""Host and port."""


class OpenConnections:
    """The open connections, each with the address that it leads to.

    A server that hangs says nothing. Only a cut tells its waiters that they wait for the wrong
    server.

    No mutex: a signal handler or ``__del__`` may strike anywhere, and use the client. Each step
    is one assignment or one method of a dict. `cut` first notes the address and then looks for
    connections; a connection is first added and then looks for cuts.

    Attributes:
        cuts: an object that is replaced at each cut.
    """

    def __init__(self) -> None:
        self.cuts = object()
        self._only: Address | None = None
        # Weak: a connection that nobody refers to any more is closed, and nobody waits for it.
        self._connections: dict[int, tuple[weakref.ref[Any], Address, Loop | None]] = {}

    def add(self, address: Address, connection: Any, loop: Loop | None) -> None:
        """Take in a redis-py connection before it connects, or what goes on without it.

        A server may already hang while the connection logs in.

        Args:
            address: where it leads to.
            connection: the redis-py connection; or the writer of a redis.asyncio one, which will be
                used without the connection.
            loop: the event loop of a redis.asyncio connection, else None.
        """
        key, connections = id(connection), self._connections
        ref = weakref.ref(connection, lambda _: connections.pop(key, None))
        connections[key] = (ref, address, loop)

    def stands(self, address: Address, at: object) -> bool:
        """Return whether *address*, looked up when `cuts` was *at*, is still good."""
        return self.cuts is at or address == self._only

    def cut(self, address: Address) -> None:
        """Cut each connection that does not lead to *address*; its user sees it end."""
        self._only = address
        self.cuts = object()
        for ref, to, loop in list(self._connections.values()):
            connection = ref()
            if connection is None or to == address:
                continue
            if loop is None:
                _shut(connection)
            else:
                with suppress(RuntimeError):  # the loop is closed, and its connections with it
                    loop.call_soon_threadsafe(_abort, connection)


def _shut(connection: Any) -> None:
    sock = connection._sock  # noqa: SLF001 - redis-py connects, we drive
    if sock is not None:
        with suppress(OSError):  # it is closed already, as intended
            # The method of the plain socket. That of a TLS socket also drops the TLS session,
            # which another thread may use.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _abort(connection: Any) -> None:
    writer = getattr(connection, "_writer", connection)
    if writer is not None:
        writer.transport.abort()
