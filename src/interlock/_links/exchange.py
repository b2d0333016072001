"""One exchange on a blocking socket: a command sent, and what comes first of its reply. In C, where that could be compiled.

The one in C gives up the interpreter lock once where the other does twice, and is otherwise the same.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import socket

CHUNK = 65536
"""Bytes that are read at a time, at the most."""


def in_python(sock: socket.socket, data: bytes, /) -> bytes:
    """Send *data*; return what comes first of the reply, nothing if that is the end.

    Raises:
        BlockingIOError, TimeoutError: the socket's time-out has passed.
        OSError: the connection failed, or is closed.
    """
    sock.sendall(data)
    return sock.recv(CHUNK)


try:
    from interlock._links._exchange import exchange as exchange  # noqa: PLC0414
except ImportError:  # there was no compiler
    exchange = in_python

COMPILED = exchange is not in_python
"""Whether the one in C is there."""
