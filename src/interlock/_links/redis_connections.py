"""What is used of redis-py's connections; loading it takes as long as a short program."""

from __future__ import annotations

from contextlib import suppress
from typing import Any, cast

import redis.asyncio.connection as aio
import redis.connection as sync
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from interlock._links.dialling import connect_to

__all__ = [
    "Dialled",
    "RedisError",
    "ResponseError",
    "SettledTLS",
    "aio",
    "once",
    "once_async",
    "sync",
]


def once() -> Retry:
    """Return the policy of a connection that tries once."""
    return Retry(NoBackoff(), 0)


def once_async() -> AsyncRetry:
    """Return the same for a connection of asyncio's."""
    return AsyncRetry(NoBackoff(), 0)


class Dialled(sync.Connection):
    """A TCP connection that waits for a name server no longer than for its own server."""

    def _connect(self) -> Any:
        connect_plainly: Any = super()._connect
        name, limit = self.host, cast("float", self.socket_connect_timeout)

        def connect(address: str, seconds: float) -> Any:
            self.host, self.socket_connect_timeout = address, seconds
            return connect_plainly()

        try:
            return connect_to(name, limit, connect)
        finally:
            self.host, self.socket_connect_timeout = name, limit


class SettledTLS(sync.SSLConnection, Dialled):
    """A TLS connection that the server has accepted, without unread bytes after the handshake.

    With TLS 1.3 the server refuses our certificate only after the handshake. There it also sends
    its session tickets. The pools of redis-py (8.1) take unread bytes for a reply to somebody else,
    and fail with "Connection not ready".
    """

    def connect(self) -> None:
        """Connect unless connected."""
        fresh, plain = self._sock is None, cast("Any", super())
        plain.connect()
        if fresh:
            plain.send_command("PING")
            with suppress(ResponseError):  # any answer will do
                plain.read_response()
