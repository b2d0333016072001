"""interlock's other objects, each as a lock: semaphores have one permit."""

from __future__ import annotations

from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import interlock
import interlock.asyncio
from benchmarks.peer import AsyncPeer, SyncPeer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Callable, Generator

    from benchmarks.peer import AsyncLock, Peer, SyncLock

# What outlives a release: the counter of tokens, the counter of permits, a latch for a second.
_TOKEN = ("redisson_lock_token:",)
_SEMAPHORE = ("semaphore", "leased semaphore", "contended", "redisson_unlock_latch:")
_PACKAGES = ("interlock", "redis", "hiredis")


@dataclass(slots=True)
class _Permits:
    """A leased semaphore's one permit; it is created with the first lock of its name."""

    semaphore: interlock.LeasedSemaphore
    permit: Any = None

    def acquire(self) -> bool:
        self.permit = self.semaphore.acquire()
        return self.permit is not None

    def release(self) -> None:
        self.permit.release()


@dataclass(slots=True)
class _AsyncPermits:
    semaphore: interlock.asyncio.LeasedSemaphore
    permit: Any = None

    async def acquire(self) -> bool:
        self.permit = await self.semaphore.acquire()
        return self.permit is not None

    async def release(self) -> None:
        await self.permit.release()


@dataclass(slots=True)
class _Counter:
    """An asyncio semaphore; its permit is set before its first acquire."""

    semaphore: interlock.asyncio.Semaphore
    ready: bool = False

    async def acquire(self) -> bool:
        if not self.ready:
            await self.semaphore.try_set_permits(1)
            self.ready = True
        return await self.semaphore.acquire()

    async def release(self) -> None:
        await self.semaphore.release()


@dataclass(slots=True)
class _LeasedCounter(_AsyncPermits):
    ready: bool = False

    async def acquire(self) -> bool:
        if not self.ready:
            await self.semaphore.try_set_permits(1)
            self.ready = True
        self.permit = await self.semaphore.acquire()
        return self.permit is not None


@dataclass(frozen=True, slots=True)
class _Session:
    client: interlock.Client
    make: Callable[[interlock.Client, str], SyncLock]

    def lock(self, name: str) -> SyncLock:
        return self.make(self.client, name)


@dataclass(frozen=True, slots=True)
class _AsyncSession:
    client: interlock.asyncio.Client
    make: Callable[[interlock.asyncio.Client, str], AsyncLock]

    def lock(self, name: str) -> AsyncLock:
        return self.make(self.client, name)


def _semaphore(client: interlock.Client, name: str, permits: int = 1) -> SyncLock:
    semaphore = client.semaphore(name)
    semaphore.try_set_permits(permits)
    return semaphore


def _leased(client: interlock.Client, name: str) -> SyncLock:
    semaphore = client.leased_semaphore(name)
    semaphore.try_set_permits(1)
    return _Permits(semaphore)


def _sync(
    name: str, make: Callable[[interlock.Client, str], SyncLock], leaves: tuple[str, ...] = ()
) -> SyncPeer:
    @contextmanager
    def session(url: str, _workers: int) -> Generator[_Session]:
        with interlock.connect(url) as client:
            yield _Session(client, make)

    return SyncPeer(name, _PACKAGES, leaves=leaves, open=session)


def _async(
    name: str,
    make: Callable[[interlock.asyncio.Client, str], AsyncLock],
    leaves: tuple[str, ...] = (),
) -> AsyncPeer:
    @asynccontextmanager
    async def session(url: str, _workers: int) -> AsyncGenerator[_AsyncSession]:
        async with interlock.asyncio.connect(url) as client:
            yield _AsyncSession(client, make)

    return AsyncPeer(name, _PACKAGES, leaves=leaves, open=session)


FAIR = _sync("fair lock", lambda client, name: client.fair_lock(name))
WRITE = _sync("write lock", lambda client, name: client.read_write_lock(name).write)
FENCED = _sync("fenced lock", lambda client, name: client.fenced_lock(name), _TOKEN)
SEMAPHORE = _sync("semaphore", _semaphore, _SEMAPHORE)
SEMAPHORE_OF_FOUR = _sync(
    "semaphore of 4", lambda client, name: _semaphore(client, name, 4), _SEMAPHORE
)
FLEET: tuple[Peer, ...] = (FENCED, WRITE, SEMAPHORE, SEMAPHORE_OF_FOUR)
"""What a fleet contends for, besides the plain lock."""

FAMILY: tuple[Peer, ...] = (
    FAIR,
    _sync("read lock", lambda client, name: client.read_write_lock(name).read),
    WRITE,
    FENCED,
    _sync("spin lock", lambda client, name: client.spin_lock(name)),
    _sync("multi lock of one", lambda client, name: interlock.MultiLock(client.lock(name))),
    SEMAPHORE,
    _sync("leased semaphore", _leased, _SEMAPHORE),
    _async("fair lock", lambda client, name: client.fair_lock(name)),
    _async("read lock", lambda client, name: client.read_write_lock(name).read),
    _async("write lock", lambda client, name: client.read_write_lock(name).write),
    _async("fenced lock", lambda client, name: client.fenced_lock(name), _TOKEN),
    _async("spin lock", lambda client, name: client.spin_lock(name)),
    _async(
        "multi lock of one", lambda client, name: interlock.asyncio.MultiLock(client.lock(name))
    ),
    _async("semaphore", lambda client, name: _Counter(client.semaphore(name)), _SEMAPHORE),
    _async(
        "leased semaphore",
        lambda client, name: _LeasedCounter(client.leased_semaphore(name)),
        _SEMAPHORE,
    ),
)

SHARED = _sync("read lock on one name", lambda client, _: client.read_write_lock("shared").read)
SHARED_ASYNC = _async(
    "read lock on one name", lambda client, _: client.read_write_lock("shared").read
)
