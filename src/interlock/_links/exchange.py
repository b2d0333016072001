"""Sending to a server and receiving from it within a time, in C or in Python.

The C part gives up the interpreter lock once for a round trip. It needs a socket that the kernel
blocks on. Python's own way works for every socket: TLS, and those of gevent and eventlet, which
only look as if they were blocking.
"""

from __future__ import annotations

import os
import socket
import ssl
import struct
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

    Exchange = Callable[[socket.socket, bytes, float], bytes]
    Send = Callable[[socket.socket, bytes, float], None]

_in_c: tuple[Exchange, Send] | None
try:
    from interlock._links._exchange import exchange, send_all
except ImportError:  # there was no compiler, or it was run before the source changed
    _in_c = None
else:
    _in_c = exchange, send_all

COMPILED = _in_c is not None
"""Whether the C part is there."""
CHUNK = 65536
"""Bytes that are read at a time, at the most."""


def exchange_in_python(sock: socket.socket, data: bytes, seconds: float, /) -> bytes:
    """Send *data*; return what comes first of the reply, nothing if that is the end.

    Args:
        sock: the socket, whose timeout `set_timeout` has set to *seconds*.
        data: the command; empty to receive only.
        seconds: of silence before it fails.

    Raises:
        BlockingIOError, TimeoutError: the time is up.
        OSError: the connection failed, or is closed.
    """
    del seconds
    if data:
        sock.sendall(data)
    return sock.recv(CHUNK)


def send_in_python(sock: socket.socket, data: bytes, seconds: float, /) -> None:
    """Send *data*; arguments and errors as `exchange_in_python`."""
    del seconds
    sock.sendall(data)


def kernel_timeout(sock: socket.socket, seconds: float) -> None:
    """Let each read and write of a blocking socket fail after *seconds*."""
    value = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6) or 1)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, value)


def python_timeout(sock: socket.socket, seconds: float) -> None:
    """Let each read and write of any socket fail after *seconds*."""
    sock.settimeout(seconds)


def methods_for(
    sock: socket.socket,
) -> tuple[Exchange, Send, Callable[[socket.socket, float], None]]:
    """Return the fastest ways to exchange, to send, and to set a timeout that work with *sock*."""
    if _in_c is not None and not isinstance(sock, ssl.SSLSocket):
        sock.settimeout(None)
        # A socket of gevent or eventlet stays non-blocking: other greenlets run while it waits.
        if os.get_blocking(sock.fileno()):
            return *_in_c, kernel_timeout
    return exchange_in_python, send_in_python, python_timeout
