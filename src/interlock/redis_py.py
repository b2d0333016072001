"""A lock with the methods, arguments and errors of redis-py's own.

It is for programs that use `redis.Redis.lock`.
``redis.lock(name, lock_class=interlock.redis_py.Lock)`` is all that changes. The differences are in
docs/coming/redis-py.md; `interlock.asyncio.redis_py` is the same for `redis.asyncio`.
"""

from __future__ import annotations

from typing import Any

import redis

from interlock.sync.redis_py import Lock, client_of

__all__ = ["Lock", "Redis", "client_of"]


class Redis(redis.Redis):
    """redis-py's client, whose `lock` makes locks of ours.

    django-redis takes it as ``REDIS_CLIENT_CLASS``.
    """

    def lock(self, *args: Any, **options: Any) -> Any:
        """Return a `Lock`; arguments as of redis-py's own."""
        return super().lock(*args, **{"lock_class": Lock, **options})
