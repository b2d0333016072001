"""A redis-py client of a server, for what is not the hot path."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any, cast

import redis
import redis.connection as sync
from redis.backoff import NoBackoff
from redis.retry import Retry

if TYPE_CHECKING:
    from interlock._links.endpoint import Endpoint


class SettledTLS(sync.SSLConnection):
    """A TLS connection on which nothing is left to be read.

    The server sends its session tickets (TLS 1.3) after the handshake, and redis-py's pools (8.1) take what lies there unread for
    somebody else's reply: "Connection not ready".
    """

    def connect(self) -> None:
        """Connect unless connected."""
        fresh, plain = self._sock is None, cast("Any", super())
        plain.connect()
        if fresh:
            plain.send_command("PING")
            with suppress(redis.ResponseError):  # any answer will do
                plain.read_response()


def side_client(endpoint: Endpoint, timeout: float) -> redis.Redis:
    """Return a client of the server at *endpoint*, which its user closes; it never tries again.

    Args:
        endpoint: one server.
        timeout: seconds for connecting and for each reply.
    """
    options = endpoint.pool_options(timeout)
    if "path" not in options:
        options["host"], options["port"] = endpoint.address
    pool = redis.ConnectionPool(
        **options,
        db=endpoint.db,
        retry=Retry(NoBackoff(), 0),
        decode_responses=True,
        encoding_errors="replace",
    )
    return redis.Redis.from_pool(pool)
