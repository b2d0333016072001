"""Sending to a server and receiving from it within a time limit, in C or in Python.

The C part releases the interpreter lock (GIL) once for a round trip. It needs a socket in blocking
mode. The Python part works with every socket: with TLS, and with those of gevent and eventlet,
which only seem to block.
"""

from __future__ import annotations

import os
import socket
import struct
import sys
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Callable

    Ask = Callable[[Any, bytes, float], "int | list[int] | bytes | None"]

_in_c: Ask | None
try:
    from interlock._links._exchange import ask as _in_c
except ImportError:  # there was no compiler, or the C part is older than its source
    _in_c = None

COMPILED = _in_c is not None
"""Whether the C part is there."""
CHUNK = 65536
"""The most bytes that are read at a time."""


def ask_in_python(sock: socket.socket, data: bytes, seconds: float, /) -> bytes:
    """Send *data*; return the first bytes of the reply, or none at the end of the connection.

    Args:
        sock: the socket, whose timeout `python_timeout` has set to *seconds*.
        data: the command; empty to receive only.
        seconds: the longest silence before it fails.

    Raises:
        BlockingIOError, TimeoutError: the time is up.
        OSError: the connection failed, or is closed.
    """
    del seconds
    if data:
        sock.sendall(data)
    return sock.recv(CHUNK)


def kernel_timeout(sock: socket.socket, seconds: float) -> None:
    """Make each read and write of a blocking socket fail after *seconds*."""
    value = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6) or 1)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, value)


def python_timeout(sock: socket.socket, seconds: float) -> None:
    """Make each read and write of any socket fail after *seconds*."""
    sock.settimeout(seconds)


class Methods(NamedTuple):
    """The fastest functions that work with one socket.

    Attributes:
        handle: stands for the socket in calls of `ask`.
        ask: sends, and returns the reply if it can parse it, else the first bytes of the reply.
            Without anything to send it returns the bytes that come next.
        limit: sets the timeout of the socket.
        in_c: whether `ask` is the one in C: it calls nobody's code.
    """

    handle: object
    ask: Ask
    limit: Callable[[socket.socket, float], None]
    in_c: bool = False


def encrypts(sock: socket.socket) -> bool:
    """Return whether *sock* is one of TLS; the module takes long to load, and is not."""
    ssl = sys.modules.get("ssl")
    return ssl is not None and isinstance(sock, ssl.SSLSocket)


def methods_for(sock: socket.socket) -> Methods:
    """Return the fastest functions that work with *sock*."""
    if _in_c is not None and not encrypts(sock):
        sock.settimeout(None)
        # A socket of gevent or eventlet stays non-blocking: other greenlets run while it waits.
        if os.get_blocking(sock.fileno()):
            return Methods(sock.fileno, _in_c, kernel_timeout, in_c=True)
    return Methods(sock, ask_in_python, python_timeout)
