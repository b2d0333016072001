"""Sending to a server and receiving from it within a time limit, in C or in Python.

The C part releases the interpreter lock (GIL) once for a round trip. The Python part works with
every socket: with TLS, and with those of gevent and eventlet.
"""

from __future__ import annotations

import _socket
import sys
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket
    from collections.abc import Callable

    Ask = Callable[[Any, bytes, float], "int | list[int] | bytes | None"]

_in_c: Ask | None
try:
    from interlock._links._exchange import ask as _in_c
except ImportError:  # there was no compiler, or the C part is older than its source
    _in_c = None

COMPILED = _in_c is not None
CHUNK = 65536
"""The most bytes that are read at a time."""


def ask_in_python(sock: socket.socket, data: bytes, seconds: float, /) -> bytes:
    """Send *data*, if it is not empty; return the first bytes that come, none at the end of all.

    Raises:
        BlockingIOError, TimeoutError: *seconds* of silence are over.
        OSError: the connection failed, or is closed.
    """
    if sock.gettimeout() != seconds:
        sock.settimeout(seconds)
    if data:
        sock.sendall(data)
    return sock.recv(CHUNK)


def encrypts(sock: socket.socket) -> bool:
    """Return whether *sock* is one of TLS; the module takes long to load, and is not."""
    ssl = sys.modules.get("ssl")
    return ssl is not None and isinstance(sock, ssl.SSLSocket)


def way_to(sock: socket.socket) -> tuple[Any, Ask]:
    """Return the fastest function that asks by *sock*, and what stands for that in its calls.

    The function sends, and returns the reply if it can parse it, else the first bytes of the reply;
    without anything to send, it returns the bytes that come next. In C it calls nobody's code. A
    socket of gevent or eventlet is none of Python's own: other greenlets run while it waits.
    """
    pythons: bool = isinstance(sock, _socket.socket)  # pyright: ignore[reportUnnecessaryIsInstance]
    if _in_c is not None and pythons and not encrypts(sock):
        return sock.fileno, _in_c
    return sock, ask_in_python
