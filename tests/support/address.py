"""Loopback ports that stay free, and the URLs that name them."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
import socket
from urllib.parse import quote, urlencode

LOOPBACK = "127.0.0.1"

# A cluster node also listens on its port + 10000. Both are kept below 32768, where Linux begins to
# hand out client ports. A client that calls a dead server within that range again and again can
# be given the server's own port. It is then connected to itself, and the restarted server cannot
# bind.
_FIRST_PORT, _PORTS, _BUS = 11000, 10000, 10000
_WORKERS, _EACH = 8, 625
"""How many processes of one run of the tests have ports of their own, and how many each."""


def free_port() -> int:
    """Return a loopback port on which nothing listens, nor on its cluster bus port.

    Somebody may take it before the caller does, so a caller tries again with another. Workers of
    pytest-xdist have different ports: else the port of a server that one has killed for a moment may
    go to another one's server.

    Raises:
        OSError: A hundred ports in a row were taken.
    """
    worker = os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw")
    first, many = _WORKERS * _EACH, _PORTS - _WORKERS * _EACH
    if worker.isdecimal() and int(worker) < _WORKERS:
        first, many = int(worker) * _EACH, _EACH
    for _ in range(100):
        port = _FIRST_PORT + first + secrets.randbelow(many)
        if _bindable(port) and _bindable(port + _BUS):
            return port
    raise OSError(errno.EADDRINUSE, f"no free port among {_FIRST_PORT}..{_FIRST_PORT + _PORTS}")


def server_url(
    port: int,
    db: int = 0,
    username: str | None = None,
    password: str | None = None,
    *,
    scheme: str = "redis",
    **query: str,
) -> str:
    url = f"{scheme}://{credentials(username, password)}{LOOPBACK}:{port}/{db}"
    return f"{url}?{urlencode(query)}" if query else url


def credentials(username: str | None, password: str | None) -> str:
    """Return the ``user:password@`` part of a URL, empty when there is neither."""
    if username is None and password is None:
        return ""
    return f"{quote(username or '', safe='')}:{quote(password or '', safe='')}@"


def _bindable(port: int) -> bool:
    with contextlib.closing(socket.socket()) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((LOOPBACK, port))
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            return False
        return True
