"""What is used of redis-py's connections; loading it takes as long as a short program."""

from __future__ import annotations

import redis.asyncio.connection as aio
import redis.connection as sync
from redis.asyncio.retry import Retry as AsyncRetry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError, ResponseError
from redis.retry import Retry

from interlock._links.tls import SettledTLS

__all__ = ["RedisError", "ResponseError", "SettledTLS", "aio", "once", "once_async", "sync"]


def once() -> Retry:
    """Return the policy of a connection that tries once."""
    return Retry(NoBackoff(), 0)


def once_async() -> AsyncRetry:
    """Return the same for a connection of asyncio's."""
    return AsyncRetry(NoBackoff(), 0)
