"""The open connections to a primary that may move.

Any thread can cut the connections to a former primary.
"""

from __future__ import annotations

import socket
import weakref
from contextlib import suppress
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from interlock._links.dialled import Dialled

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
        self._connections: dict[int, tuple[weakref.ref[Dialled], Address]] = {}

    def add(self, address: Address, connection: Dialled) -> None:
        """Take in a connection that leads to *address*, before it connects.

        A server may already hang while the connection logs in.
        """
        key, connections = id(connection), self._connections
        ref = weakref.ref(connection, lambda _: connections.pop(key, None))
        connections[key] = (ref, address)

    def stands(self, address: Address, at: object) -> bool:
        """Return whether *address*, looked up when `cuts` was *at*, is still good."""
        return self.cuts is at or address == self._only

    def cut(self, address: Address) -> None:
        """Cut each connection that does not lead to *address*; its user sees it end."""
        self._only = address
        self.cuts = object()
        for ref, to in list(self._connections.values()):
            connection = ref()
            if connection is not None and to != address and (sock := connection.sock) is not None:
                with suppress(OSError):  # it is closed already, as intended
                    # The method of the plain socket. That of a TLS socket also drops the TLS
                    # session, which another thread may use. The socket of an event loop may be
                    # shut by any thread.
                    socket.socket.shutdown(sock, socket.SHUT_RDWR)
