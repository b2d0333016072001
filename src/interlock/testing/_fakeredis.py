"""fakeredis behind a socket, because interlock dials its servers itself."""

from __future__ import annotations

import re
import socket
import threading
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import lupa  # noqa: F401  # pyright: ignore[reportUnusedImport] - without it, no scripts
from fakeredis import TcpFakeServer

if TYPE_CHECKING:
    from collections.abc import Generator

_LOOPBACK = "127.0.0.1"
_POLL = 0.01
"""Seconds until the thread that accepts sees that it shall end."""
_PREFIXED = re.compile(rb"\A-ERR (?=(ENTRIES|WRONGTYPE) )")


@contextmanager
def serving() -> Generator[str]:
    """Run an empty server in threads, which end with the block, and yield its URL."""
    server = _Server((_LOOPBACK, 0))
    thread = threading.Thread(target=server.serve_forever, args=(_POLL,), name="interlock-fake")
    thread.start()
    try:
        yield f"redis://{_LOOPBACK}:{server.server_address[1]}"
    finally:
        server.shutdown()
        thread.join()
        server.server_close()  # it joins the threads of the connections


class _Server(TcpFakeServer):
    def get_request(self) -> tuple[socket.socket, Any]:
        accepted, address = super().get_request()
        connection = _Connection(fileno=accepted.detach())
        connection.setblocking(False)  # fakeredis does so itself, but not on Windows
        return connection, address


class _Connection(socket.socket):
    """A connection whose errors begin with the codes that the server gave them.

    fakeredis puts ERR before each code that redis-py has no exception for.
    """

    def sendall(self, data: Any, flags: int = 0, /) -> None:
        super().sendall(_PREFIXED.sub(b"-", bytes(data)), flags)
