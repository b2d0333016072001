"""pottery's Redlock and AIORedlock, over the one server that the other peers have."""

from __future__ import annotations

import contextlib
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import redis
import redis.asyncio

from benchmarks.peer import AsyncPeer, SyncPeer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from benchmarks.peer import AsyncLock, SyncLock

_LEASE = 30.0  # seconds; what the other peers use


@dataclass(frozen=True, slots=True)
class _Session:
    masters: frozenset[redis.Redis]

    def lock(self, name: str) -> SyncLock:
        import pottery  # noqa: PLC0415 - may not be installed

        return pottery.Redlock(key=name, masters=self.masters, auto_release_time=_LEASE)


@dataclass(frozen=True, slots=True)
class _AsyncSession:
    masters: frozenset[redis.asyncio.Redis]

    def lock(self, name: str) -> AsyncLock:
        import pottery  # noqa: PLC0415 - may not be installed

        return pottery.AIORedlock(key=name, masters=self.masters, auto_release_time=_LEASE)


@contextmanager
def _open(urls: str, workers: int) -> Generator[_Session]:
    with contextlib.ExitStack() as stack:
        clients = [redis.Redis.from_url(url, max_connections=workers + 1) for url in urls.split()]
        yield _Session(frozenset(stack.enter_context(client) for client in clients))


@asynccontextmanager
async def _open_async(urls: str, workers: int) -> AsyncGenerator[_AsyncSession]:
    async with contextlib.AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(
                redis.asyncio.Redis.from_url(url, max_connections=workers + 1)
            )
            for url in urls.split()
        ]
        yield _AsyncSession(frozenset(opened))


_PACKAGES = ("pottery", "redis", "hiredis")
# Acquiring is SET NX PX, releasing a script.
_CALLS = {"set": 1, "evalsha": 1}
SYNC = SyncPeer("pottery", _PACKAGES, _CALLS, open=_open)
ASYNC = AsyncPeer("pottery", _PACKAGES, _CALLS, open=_open_async)
