"""The open connections to a primary that may move, so that those to a former one can be cut from any thread."""

from __future__ import annotations

import asyncio
import socket
import weakref
from contextlib import suppress
from typing import Any

Address = tuple[str, int]
"""Host and port."""
Loop = asyncio.AbstractEventLoop


class OpenConnections:
    """What leads to one address or another.

    A server that hangs says nothing. Those who wait for its replies learn only by a cut that they
    wait for the wrong one.

    No mutex: a signal handler or ``__del__`` may strike anywhere, and use the client. Each step
    is one assignment or one method of a dict. `cut` first notes the address and then looks for
    connections; a connection is first added and then looks for cuts.

    Attributes:
        cuts: another object after each cut.
    """

    def __init__(self) -> None:
        self.cuts = object()
        self._only: Address | None = None
        # Weak: a connection that nobody refers to any more is closed, and nobody waits for it.
        self._connections: dict[int, tuple[weakref.ref[Any], Address, Loop | None]] = {}
        self._transports: dict[int, tuple[asyncio.Transport, Address, Loop]] = {}

    def add(self, address: Address, connection: Any, loop: Loop | None) -> None:
        """Take in a redis-py connection before it connects.

        A server may hang before it has logged anybody in.

        Args:
            address: where it leads to.
            connection: of redis-py.
            loop: that of a redis.asyncio connection.
        """
        key, connections = id(connection), self._connections
        ref = weakref.ref(connection, lambda _: connections.pop(key, None))
        connections[key] = (ref, address, loop)

    def add_transport(self, address: Address, connection: Any) -> None:
        """Take in what a connected redis.asyncio connection goes by, which will be used without it."""
        transport: asyncio.Transport = connection._writer.transport  # noqa: SLF001 - redis-py connects, we drive
        for key, (each, _, _) in self._transports.copy().items():
            if each.is_closing():
                _ = self._transports.pop(key, None)
        self._transports[id(transport)] = (transport, address, asyncio.get_running_loop())

    def stands(self, address: Address, at: object) -> bool:
        """Return whether *address* is still good, which was asked for when `cuts` was *at*."""
        return self.cuts is at or address == self._only

    def cut(self, address: Address) -> None:
        """Cut all connections but those to *address*; who uses one sees it end."""
        self._only = address
        self.cuts = object()
        for ref, to, loop in list(self._connections.values()):
            connection = ref()
            if connection is None or to == address:
                continue
            if loop is None:
                _shut(connection)
            else:
                _call(loop, _abort, connection)
        for transport, to, loop in list(self._transports.values()):
            if to != address:
                _call(loop, transport.abort)


def _shut(connection: Any) -> None:
    sock = connection._sock  # noqa: SLF001 - redis-py connects, we drive
    if sock is not None:
        with suppress(OSError):  # it is closed already, which is what is wanted
            # The plain socket's: that of TLS would pull the session from under who is reading.
            socket.socket.shutdown(sock, socket.SHUT_RDWR)


def _abort(connection: Any) -> None:
    writer = connection._writer  # noqa: SLF001
    if writer is not None:
        writer.transport.abort()


def _call(loop: Loop, step: Any, *args: Any) -> None:
    with suppress(RuntimeError):  # the loop is closed, and its connections with it
        loop.call_soon_threadsafe(step, *args)
