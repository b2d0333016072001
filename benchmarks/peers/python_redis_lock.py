"""python-redis-lock, which wakes its waiters through a list (BLPOP)."""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import redis

from benchmarks.peer import SyncPeer

if TYPE_CHECKING:
    from collections.abc import Generator

    from benchmarks.peer import SyncLock

_LEASE = 30  # seconds; what the other peers use


@dataclass(frozen=True, slots=True)
class _Session:
    client: redis.Redis

    def lock(self, name: str) -> SyncLock:
        import redis_lock  # noqa: PLC0415 - may not be installed

        lock: SyncLock = redis_lock.Lock(self.client, name, expire=_LEASE)
        return lock


@contextmanager
def _open(url: str, workers: int) -> Generator[_Session]:
    with redis.Redis.from_url(url, max_connections=workers + 1) as client:
        yield _Session(client)


SYNC = SyncPeer(
    "python-redis-lock",
    ("python-redis-lock", "redis", "hiredis"),
    {"set": 1, "evalsha": 1},
    leaves=("lock-signal:",),  # for a second, so that who is about to wait finds it
    open=_open,
)
