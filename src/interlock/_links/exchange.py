"""Sending to a server and receiving from it within a time limit, in C or in Python.

The C part releases the interpreter lock (GIL) once for a round trip. It needs a socket in blocking
mode. The Python part works with every socket: with TLS, and with those of gevent and eventlet,
which only seem to block.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import sys
from functools import partial
from time import monotonic
from typing import TYPE_CHECKING, Any

from interlock._traceback import passes_users

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
        sock: the socket, whose timeout is *seconds*.
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


def send_all(sock: socket.socket, data: bytes, seconds: float) -> None:
    """Send *data* on a socket in blocking mode.

    With the kernel's timeout, `sendall` would wait for all of it again after each signal.

    Raises:
        BlockingIOError: the server has not taken it within *seconds*.
        OSError: the connection failed, or is closed.
    """
    rest, deadline = memoryview(data), monotonic() + seconds
    while rest:
        try:
            rest = rest[sock.send(rest, socket.MSG_DONTWAIT) :]
        except BlockingIOError as error:
            if passes_users(error.__traceback__):
                raise  # from a signal handler: what it struck may have been sent
            poll = select.poll()
            poll.register(sock, select.POLLOUT)
            if not poll.poll(max(deadline - monotonic(), 0) * 1000):
                raise


def kernel_timeout(sock: socket.socket, seconds: float) -> None:
    """Make each read and write of a blocking socket fail after *seconds*."""
    value = struct.pack("@ll", int(seconds), int(seconds % 1 * 1e6) or 1)
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, value)


def encrypts(sock: socket.socket) -> bool:
    """Return whether *sock* is one of TLS; the module takes long to load, and is not."""
    ssl = sys.modules.get("ssl")
    return ssl is not None and isinstance(sock, ssl.SSLSocket)


def methods_for(sock: socket.socket) -> tuple[object, Ask, Callable[[float], None], bool]:
    """Return the fastest functions that work with *sock*.

    Returns:
        What stands for the socket in calls of the next one. That sends, and returns the reply if it
        can parse it, else the first bytes of the reply; without anything to send, it returns the
        bytes that come next. Then what sets the timeout of the socket, and whether all is in C and
        calls nobody's code.
    """
    if _in_c is not None and not encrypts(sock):
        sock.settimeout(None)
        # A socket of gevent or eventlet stays non-blocking: other greenlets run while it waits.
        if os.get_blocking(sock.fileno()):
            return sock.fileno, _in_c, partial(kernel_timeout, sock), True
    return sock, ask_in_python, sock.settimeout, False
