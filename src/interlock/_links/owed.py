"""Replies that are still to come on a connection, and that nobody waits for."""

from __future__ import annotations

import socket
from typing import TYPE_CHECKING

from interlock._links.exchange import CHUNK
from interlock._links.resp import ParserError

if TYPE_CHECKING:
    from interlock._links.resp import Reader

MOST = 32
"""How many replies a connection may owe: if there are more, the server does not answer."""


class OwedReplies:
    """The replies that a connection owes to nobody. They come before all others.

    Args:
        sock: the socket of the connection.
        reader: parses what comes.

    Attributes:
        count: how many there are.
        ahead: a reply to a later command that was read with them.
    """

    __slots__ = ("_reader", "_socket", "ahead", "count")

    def __init__(self, sock: socket.socket, reader: Reader) -> None:
        self._socket = sock
        self._reader = reader
        self.count = 0
        self.ahead: list[object] = []

    def add(self, number: int) -> bool:
        """Add *number* of them; return False if there are too many."""
        self.count += number
        return self.count <= MOST

    def fileno(self) -> int:
        """Return the file descriptor of the socket."""
        return self._socket.fileno()

    def caught_up(self) -> bool:
        """Return whether the next read need not wait long; the socket has something to read.

        Drop the replies that have come.
        """
        if not self.count:
            return True
        try:
            while True:
                while (reply := self._reader.gets()) is not False:
                    if not self.count:
                        self.ahead.append(reply)
                        return True
                    self.count -= 1
                data = self._socket.recv(CHUNK, socket.MSG_DONTWAIT)
                if not data:
                    return True
                self._reader.feed(data)
        except BlockingIOError:
            return False
        except (OSError, ParserError):
            return True  # the next read fails, too
