"""TLS connections for redis-py's own clients."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import redis
import redis.connection as sync


class SettledTLS(sync.SSLConnection):
    """A TLS connection without unread bytes after the handshake.

    After the handshake the server sends its session tickets (TLS 1.3). The pools of redis-py (8.1)
    take unread bytes for a reply to somebody else, and fail with "Connection not ready".
    """

    def connect(self) -> None:
        """Connect unless connected."""
        fresh, plain = self._sock is None, cast("Any", super())
        plain.connect()
        if fresh:
            plain.send_command("PING")
            with suppress(redis.ResponseError):  # any answer will do
                plain.read_response()
