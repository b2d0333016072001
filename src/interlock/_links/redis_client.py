"""A client of redis-py for one server, for commands that are not the hot path."""

from __future__ import annotations

from typing import TYPE_CHECKING

import redis

from interlock._links.redis_connections import once

if TYPE_CHECKING:
    from interlock._links.endpoint import Endpoint


def redis_client(endpoint: Endpoint, timeout: float) -> redis.Redis:
    """Return a client of the server at *endpoint*. It never retries; the caller closes it.

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
        retry=once(),
        decode_responses=True,
        encoding_errors="replace",
    )
    return redis.Redis.from_pool(pool)
