"""A lock with the methods, arguments and errors of redis-py's own.

It is for programs that use `redis.Redis.lock`.
``redis.lock(name, lock_class=interlock.redis_py.Lock)`` is all that changes. The differences are in
docs/how-to/redis-py.md; `interlock.asyncio.redis_py` is the same for `redis.asyncio`.
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

    def lock(
        self,
        name: str,
        timeout: float | None = None,
        sleep: float = 0.1,
        blocking: bool = True,
        blocking_timeout: float | None = None,
        lock_class: Any = None,
        thread_local: bool = True,
        raise_on_release_error: bool = True,
    ) -> Any:
        """Return a `Lock`; arguments as of its own."""
        return (lock_class or Lock)(
            self,
            name,
            timeout=timeout,
            sleep=sleep,
            blocking=blocking,
            blocking_timeout=blocking_timeout,
            thread_local=thread_local,
            raise_on_release_error=raise_on_release_error,
        )
