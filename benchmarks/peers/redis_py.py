"""redis-py's own Lock, as its documentation shows it: one client, shared, defaults untouched."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import redis
import redis.asyncio

from benchmarks.peer import AsyncPeer, SyncPeer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from redis.asyncio.lock import Lock as AsyncLock
    from redis.lock import Lock

_LEASE = 30  # seconds; what the other peers use


@dataclass(frozen=True, slots=True)
class _Session:
    client: redis.Redis

    def lock(self, name: str) -> Lock:
        lock: Lock = self.client.lock(name, timeout=_LEASE)
        return lock


@dataclass(frozen=True, slots=True)
class _AsyncSession:
    client: redis.asyncio.Redis

    def lock(self, name: str) -> AsyncLock:
        return self.client.lock(name, timeout=_LEASE)


@contextmanager
def _open(url: str, workers: int) -> Generator[_Session]:
    # The pool raises when it is exhausted, so a user with that many threads has to size it.
    with redis.Redis.from_url(url, max_connections=workers + 1) as client:
        yield _Session(client)


@asynccontextmanager
async def _open_async(url: str, workers: int) -> AsyncGenerator[_AsyncSession]:
    async with redis.asyncio.Redis.from_url(url, max_connections=workers + 1) as client:
        yield _AsyncSession(client)


# Acquiring is SET NX PX, releasing a script.
_CALLS = {"set": 1, "evalsha": 1}
SYNC = SyncPeer("redis-py", ("redis", "hiredis"), _CALLS, open=_open)
ASYNC = AsyncPeer("redis-py", ("redis", "hiredis"), _CALLS, open=_open_async)
