"""aioredlock, abandoned in 2022: whether it still runs depends on the Python and the setuptools."""

from __future__ import annotations

import logging
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.peer import AsyncPeer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator

_LEASE = 30.0  # seconds; what the other peers use
_FOREVER = 10**9  # tries; there is no other way to say it


@dataclass(slots=True)
class _Lock:
    """The two calls of the manager as one lock: it has no lock that could be taken later."""

    manager: Any
    name: str
    held: list[Any] = field(default_factory=list[Any])

    async def acquire(self) -> bool:
        self.held.append(await self.manager.lock(self.name, lock_timeout=_LEASE))
        return True

    async def release(self) -> None:
        await self.manager.unlock(self.held.pop())


@dataclass(frozen=True, slots=True)
class _Session:
    manager: Any

    def lock(self, name: str) -> _Lock:
        return _Lock(self.manager, name)


@asynccontextmanager
async def _open(url: str, _workers: int) -> AsyncGenerator[_Session]:
    import aioredlock  # noqa: PLC0415 - may not be installed

    # It logs a traceback for every try that finds the lock taken.
    logging.getLogger("aioredlock").setLevel(logging.CRITICAL)
    manager = aioredlock.Aioredlock([url], retry_count=_FOREVER)
    try:
        yield _Session(manager)
    finally:
        await manager.destroy()


ASYNC = AsyncPeer("aioredlock", ("aioredlock", "aioredis"), {"evalsha": 2}, open=_open)
