"""interlock's other objects, each as a lock: semaphores have one permit."""

from __future__ import annotations

from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import interlock
import interlock.asyncio
from benchmarks.peer import AsyncPeer, SyncPeer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator

    from benchmarks.peer import AsyncLock, Peer, SyncLock

# What outlives a release: the counter of tokens, the counter of permits, a latch for a second.
_TOKEN = ("redisson_lock_token:",)
_SEMAPHORE = (
    *("semaphore", "leased semaphore", "contended", "redisson_unlock_latch:"),
    "interlock_semaphore_total:",
)
_PACKAGES = ("interlock", "redis", "hiredis")
_LEASE = 30.0  # seconds
_THREE = ("", ":second", ":third")


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


class _Prepared:
    """An asyncio object that needs a command before its first acquire, and none afterwards."""

    acquire: Callable[[], Awaitable[bool]]

    def __init__(self, lock: AsyncLock, prepare: Callable[[], Awaitable[object]]) -> None:
        async def first() -> bool:
            await prepare()
            self.acquire = lock.acquire
            return await lock.acquire()

        self.acquire = first
        self.release = lock.release


@dataclass(slots=True)
class _Extended:
    """A lock that is held all the time, and extended twice in place of a pair."""

    lock: interlock.Lock

    def acquire(self) -> bool:
        self.lock.extend(_LEASE)
        return True

    def release(self) -> None:
        self.lock.extend(_LEASE)


@dataclass(slots=True)
class _AsyncExtended:
    lock: interlock.asyncio.Lock

    async def acquire(self) -> bool:
        await self.lock.extend(_LEASE)
        return True

    async def release(self) -> None:
        await self.lock.extend(_LEASE)


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


def _multi(client: interlock.Client, name: str, parts: tuple[str, ...]) -> SyncLock:
    return interlock.MultiLock(*[client.lock(name + part) for part in parts])


def _async_semaphore(client: interlock.asyncio.Client, name: str) -> AsyncLock:
    semaphore = client.semaphore(name)
    return _Prepared(semaphore, lambda: semaphore.try_set_permits(1))


def _async_leased(client: interlock.asyncio.Client, name: str) -> AsyncLock:
    semaphore = client.leased_semaphore(name)
    return _Prepared(_AsyncPermits(semaphore), lambda: semaphore.try_set_permits(1))


def _async_multi(client: interlock.asyncio.Client, name: str, parts: tuple[str, ...]) -> AsyncLock:
    return interlock.asyncio.MultiLock(*[client.lock(name + part) for part in parts])


def _calls(commands: int | None) -> dict[str, int]:
    """Return what the server must count for each pair of *commands*; None for an open number."""
    return {} if commands is None else {"evalsha": commands}


def _sync(
    name: str,
    make: Callable[[interlock.Client, str], SyncLock],
    leaves: tuple[str, ...] = (),
    commands: int | None = 2,
) -> SyncPeer:
    @contextmanager
    def session(url: str, _workers: int) -> Generator[_Session]:
        with interlock.connect(url) as client:
            yield _Session(client, make)

    return SyncPeer(name, _PACKAGES, _calls(commands), leaves=leaves, open=session)


def _async(
    name: str,
    make: Callable[[interlock.asyncio.Client, str], AsyncLock],
    leaves: tuple[str, ...] = (),
    commands: int | None = 2,
) -> AsyncPeer:
    @asynccontextmanager
    async def session(url: str, _workers: int) -> AsyncGenerator[_AsyncSession]:
        async with interlock.asyncio.connect(url) as client:
            yield _AsyncSession(client, make)

    return AsyncPeer(name, _PACKAGES, _calls(commands), leaves=leaves, open=session)


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
    _sync("group lock", lambda client, name: client.group_lock(name, ["one", "two"])),
    _sync("multi lock of one", lambda client, name: _multi(client, name, _THREE[:1])),
    _sync("multi lock of three", lambda client, name: _multi(client, name, _THREE)),
    SEMAPHORE,
    _sync("leased semaphore", _leased, _SEMAPHORE),
    _async("fair lock", lambda client, name: client.fair_lock(name)),
    _async("read lock", lambda client, name: client.read_write_lock(name).read),
    _async("write lock", lambda client, name: client.read_write_lock(name).write),
    _async("fenced lock", lambda client, name: client.fenced_lock(name), _TOKEN),
    _async("spin lock", lambda client, name: client.spin_lock(name)),
    _async("group lock", lambda client, name: client.group_lock(name, ["one", "two"])),
    _async("multi lock of one", lambda client, name: _async_multi(client, name, _THREE[:1])),
    _async("multi lock of three", lambda client, name: _async_multi(client, name, _THREE)),
    _async("semaphore", _async_semaphore, _SEMAPHORE),
    _async("leased semaphore", _async_leased, _SEMAPHORE),
)


def _again(name: str, use: Callable[[interlock.Lock], SyncLock]) -> SyncPeer:
    """Return a peer whose workers each hold the lock before they begin."""

    @contextmanager
    def session(url: str, _workers: int) -> Generator[_Session]:
        with interlock.connect(url) as client, ExitStack() as stack:

            def make(client: interlock.Client, name: str) -> SyncLock:
                stack.callback(client.try_lock(name).release)
                return use(client.lock(name))

            yield _Session(client, make)

    return SyncPeer(name, _PACKAGES, open=session)


def _async_again(name: str, use: Callable[[interlock.asyncio.Lock], AsyncLock]) -> AsyncPeer:
    """Return a peer whose workers each hold the lock from their first acquire on.

    A worker's first pair is another task's than the rest. So a word owns the lock, and the block
    outlives the task.
    """

    @asynccontextmanager
    async def session(url: str, _workers: int) -> AsyncGenerator[_AsyncSession]:
        async with interlock.asyncio.connect(url) as client, AsyncExitStack() as stack:

            def make(client: interlock.asyncio.Client, name: str) -> AsyncLock:
                lock = client.lock(name, owner=name)

                async def prepare() -> None:
                    await stack.enter_async_context(lock.trying())

                return _Prepared(use(lock), prepare)

            yield _AsyncSession(client, make)

    return AsyncPeer(name, _PACKAGES, open=session)


AGAIN: tuple[Peer, ...] = (
    _again("re-entry", lambda lock: lock),
    _again("extend", _Extended),
    _async_again("re-entry", lambda lock: lock),
    _async_again("extend", _AsyncExtended),
)
"""What is done with a lock that is held already."""

# A reader that leaves others behind is told their entries first, so its pair has two or three.
SHARED = _sync(
    "read lock on one name",
    lambda client, _: client.read_write_lock("shared").read,
    commands=None,
)
SHARED_ASYNC = _async(
    "read lock on one name",
    lambda client, _: client.read_write_lock("shared").read,
    commands=None,
)
