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
        self._blocking: weakref.WeakKeyDictionary[Any, Address] = weakref.WeakKeyDictionary()
        self._transports: list[tuple[asyncio.Transport, Address, asyncio.AbstractEventLoop]] = []

    def add(self, address: Address, connection: Any, at: int) -> bool:
        """Take in a redis-py connection.

        Args:
            address: where it leads to.
            connection: connected.
            at: what `cuts` was when the address was asked for.

        Returns:
            False when it would have been cut since then.
        """
        with self._mutex:
            self._blocking[connection] = address
            return self.cuts == at or address == self._only

    def add_async(self, address: Address, connection: Any, at: int) -> bool:
        """Take in a redis.asyncio connection; arguments and result as of `add`."""
        transport: asyncio.Transport = connection._writer.transport  # noqa: SLF001 - redis-py connects, we drive
        with self._mutex:
            self._transports = [each for each in self._transports if not each[0].is_closing()]
            self._transports.append((transport, address, asyncio.get_running_loop()))
            return self.cuts == at or address == self._only

    def cut(self, address: Address) -> None:
        """Cut all connections but those to *address*; who uses one sees it end."""
        with self._mutex:
            self.cuts += 1
            self._only = address
            connections = [each for each, to in self._blocking.items() if to != address]
            transports = [(each, loop) for each, to, loop in self._transports if to != address]
        for connection in connections:
            sock = connection._sock  # noqa: SLF001
            if sock is not None:
                with suppress(OSError):  # it is closed already, which is what is wanted
                    # The plain socket's: that of TLS would pull the session from under who is reading.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
        for transport, loop in transports:
            with suppress(RuntimeError):  # the loop is closed, and the connection with it
                loop.call_soon_threadsafe(transport.abort)
