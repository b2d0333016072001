"""The lock of coredis, its recipe over one shared client."""

from __future__ import annotations

from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from benchmarks.peer import AsyncPeer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

    from benchmarks.peer import AsyncLock

_LEASE = 30.0  # seconds; what the other peers use


@dataclass(frozen=True, slots=True)
class _Session:
    client: Any

    def lock(self, name: str) -> AsyncLock:
        from coredis.patterns.lock import Lock  # noqa: PLC0415 - may not be installed

        return Lock(self.client, name, timeout=_LEASE)


@asynccontextmanager
async def _open(url: str, workers: int) -> AsyncGenerator[_Session]:
    import coredis  # noqa: PLC0415 - may not be installed

    async with coredis.Redis.from_url(url, max_connections=workers + 1) as client:
        yield _Session(client)


ASYNC = AsyncPeer("coredis", ("coredis",), {"set": 1, "evalsha": 1}, open=_open)
