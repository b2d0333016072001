"""The open connections to a primary that may move, so that those to a former one can be cut from any thread."""

from __future__ import annotations

import asyncio
import socket
import threading
import weakref
from contextlib import suppress
from typing import Any

Address = tuple[str, int]
"""Host and port."""
Loop = asyncio.AbstractEventLoop


class OpenConnections:
    """What leads to one address or another.

    A server that hangs says nothing; only by cutting are those who wait for its replies told that it is not the one to wait for.

    Attributes:
        cuts: how often connections were cut so far.
    """

    def __init__(self) -> None:
        self.cuts = 0
        self._only: Address | None = None
        self._mutex = threading.Lock()
        # Weak: a connection that nobody refers to any more is closed, and nobody waits for it.
        self._connections: weakref.WeakKeyDictionary[Any, tuple[Address, Loop | None]] = (
            weakref.WeakKeyDictionary()
        )
        self._transports: list[tuple[asyncio.Transport, Address, Loop]] = []

    def add(self, address: Address, connection: Any, loop: Loop | None) -> None:
        """Take in a redis-py connection before it connects: a server may hang before it has logged anybody in.

        Args:
            address: where it leads to.
            connection: of redis-py.
            loop: that of a redis.asyncio connection.
        """
        with self._mutex:
            self._connections[connection] = (address, loop)

    def add_transport(self, address: Address, connection: Any) -> None:
        """Take in what a connected redis.asyncio connection goes by, which will be used without it."""
        transport: asyncio.Transport = connection._writer.transport  # noqa: SLF001 - redis-py connects, we drive
        with self._mutex:
            self._transports = [each for each in self._transports if not each[0].is_closing()]
            self._transports.append((transport, address, asyncio.get_running_loop()))

    def stands(self, address: Address, at: int) -> bool:
        """Return whether *address* is still good, which was asked for when `cuts` was *at*."""
        with self._mutex:
            return self.cuts == at or address == self._only

    def cut(self, address: Address) -> None:
        """Cut all connections but those to *address*; who uses one sees it end."""
        with self._mutex:
            self.cuts += 1
            self._only = address
            connections = [
                (each, loop) for each, (to, loop) in self._connections.items() if to != address
            ]
            transports = [(each, loop) for each, to, loop in self._transports if to != address]
        for connection, loop in connections:
            if loop is None:
                _shut(connection)
            else:
                _call(loop, _abort, connection)
        for transport, loop in transports:
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
