"""TLS connections for redis-py's own clients."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import redis
import redis.connection as sync


class SettledTLS(sync.SSLConnection):
    """A TLS connection on which nothing is left to be read.

    The server sends its session tickets (TLS 1.3) after the handshake, and redis-py's pools (8.1)
    take what lies there unread for somebody else's reply: "Connection not ready".
    """

    def connect(self) -> None:
        """Connect unless connected."""
        fresh, plain = self._sock is None, cast("Any", super())
        plain.connect()
        if fresh:
            plain.send_command("PING")
            with suppress(redis.ResponseError):  # any answer will do
                plain.read_response()
