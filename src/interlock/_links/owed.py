"""Replies that are still to come on a connection, and that nobody waits for."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from interlock._links.exchange import CHUNK
from interlock._links.resp import ParserError

if TYPE_CHECKING:
    from interlock._links.resp import Replies

MOST = 32
"""How many replies a connection may owe: if there are more, the server does not answer."""


class OwedReplies:
    """The replies that a connection owes to nobody. They come before all others.

    Args:
        sock: the socket of the connection.
        received: parses what comes.

    Attributes:
        count: how many there are.
    """

    __slots__ = ("_received", "_socket", "count")

    def __init__(self, sock: socket.socket, received: Replies) -> None:
        self._socket = sock
        self._received = received
        self.count = 0

    def add(self, number: int) -> bool:
        """Add *number* of them; return False if there are too many."""
        self.count += number
        return self.count <= MOST

    def fileno(self) -> int:
        """Return the file descriptor of the socket."""
        return self._socket.fileno()

    def come(self) -> list[object]:
        """Return those that have come, which are dropped by that; wait for nothing.

        Raises:
            OSError, ParserError: the connection has ended.
        """
        come: list[object] = []
        while True:
            while self.count and (reply := self._received.gets()) is not False:
                come.append(reply)
                self.count -= 1
            if self._received.ready:
                return come
            try:
                data = self._socket.recv(CHUNK, socket.MSG_DONTWAIT)
            except BlockingIOError:
                return come
            if not data:
                raise ConnectionResetError
            self._received.feed(data)

    def caught_up(self) -> bool:
        """Return whether the next read need not wait long; the socket has something to read.

        Drop the replies that have come.
        """
        if not self.count:
            return True
        try:
            _ = self.come()
        except (OSError, ParserError):
            return True  # the next read fails, too
        return bool(self._received.ready or self._received.wrong)
