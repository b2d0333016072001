"""The locks in Python: interlock's objects, redis-py, python-redis-lock and PostgreSQL.

A peer opens a session on a server, and the session makes locks by name. A lock is the library's own
object wherever that has `acquire` and `release`, so that no wrapper is measured with it.
"""

from __future__ import annotations

from contextlib import ExitStack, asynccontextmanager, contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import redis
import redis.asyncio

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator
    from contextlib import AbstractAsyncContextManager, AbstractContextManager

LEASE = 30
"""Seconds, where a peer has no default that suits."""


class SyncLock(Protocol):
    """A lock as one thread uses it."""

    def acquire(self) -> object:
        """Take the lock; anything but a true answer is a failure."""
        ...

    def release(self) -> object:
        """Give the lock back, or raise."""
        ...


class AsyncLock(Protocol):
    """A lock as one task uses it."""

    def acquire(self) -> Awaitable[object]:
        """Take the lock; anything but a true answer is a failure."""
        ...

    def release(self) -> Awaitable[object]:
        """Give the lock back, or raise."""
        ...


if TYPE_CHECKING:
    Make = Callable[[str], SyncLock]
    """Makes the lock of a name, in the thread that will use it."""
    AsyncMake = Callable[[str], Awaitable[AsyncLock]]
    Open = Callable[[str, int], AbstractContextManager[Make]]
    """Opens a session on the server of a URL, for so many threads."""
    AsyncOpen = Callable[[str, int], AbstractAsyncContextManager[AsyncMake]]


class _Permit:
    """A leased semaphore as a lock."""

    def __init__(self, semaphore: Any) -> None:
        self.semaphore = semaphore
        self._permit: Any = None

    def acquire(self) -> bool:
        self._permit = self.semaphore.acquire()
        return self._permit is not None

    def release(self) -> None:
        self._permit.release()


class _AsyncPermit(_Permit):
    async def acquire(self) -> bool:  # type: ignore[override]
        self._permit = await self.semaphore.acquire()
        return self._permit is not None

    async def release(self) -> None:  # type: ignore[override]
        await self._permit.release()


class _Extended:
    """A lock that is held all the time, and extended twice in place of a pair."""

    def __init__(self, lock: Any) -> None:
        self.lock = lock

    def acquire(self) -> bool:
        self.lock.extend(LEASE)
        return True

    def release(self) -> None:
        self.lock.extend(LEASE)


class _AsyncExtended(_Extended):
    async def acquire(self) -> bool:  # type: ignore[override]
        await self.lock.extend(LEASE)
        return True

    async def release(self) -> None:  # type: ignore[override]
        await self.lock.extend(LEASE)


def _multi(client: Any, name: str, parts: tuple[str, ...]) -> Any:
    return client.multi_lock(*[client.lock(name + part) for part in parts])


def _is_async(client: Any) -> bool:
    return isinstance(client, interlock.asyncio.Client)


def _leased(client: Any, name: str) -> Any:
    return (_AsyncPermit if _is_async(client) else _Permit)(client.leased_semaphore(name))


LASTING = 600.0
"""Seconds for which a lock is held from one slice to the next, and then ends with its worker."""


def _extended(client: Any, name: str) -> Any:
    return (_AsyncExtended if _is_async(client) else _Extended)(client.lock(name))


class Object(NamedTuple):
    """One of interlock's objects; a semaphore has one permit.

    Attributes:
        make: Makes what has `acquire` and `release`, from a client of either face and a name.
        prepare: What is to be done with it before its first use.
    """

    make: Callable[[Any, str], Any]
    prepare: Callable[[Any], Any] | None = None


OBJECTS = {
    "interlock": Object(lambda client, name: client.lock(name)),
    "fair lock": Object(lambda client, name: client.fair_lock(name)),
    "read lock": Object(lambda client, name: client.read_write_lock(name).read),
    "write lock": Object(lambda client, name: client.read_write_lock(name).write),
    "fenced lock": Object(lambda client, name: client.fenced_lock(name)),
    "spin lock": Object(lambda client, name: client.spin_lock(name)),
    "group lock": Object(lambda client, name: client.group_lock(name, ["one", "two"])),
    "multi lock of one": Object(lambda client, name: _multi(client, name, ("",))),
    "multi lock of three": Object(
        lambda client, name: _multi(client, name, ("", ":second", ":third"))
    ),
    "semaphore": Object(
        lambda client, name: client.semaphore(name),
        lambda semaphore: semaphore.try_set_permits(1),
    ),
    "leased semaphore": Object(_leased, lambda permit: permit.semaphore.try_set_permits(1)),
    "re-entry": Object(
        lambda client, name: client.lock(name), lambda lock: lock.acquire(lease=LASTING)
    ),
    "extend": Object(_extended, lambda extended: extended.lock.acquire(lease=LASTING)),
}


def _built(made: Object, client: Any, name: str) -> Any:
    lock = made.make(client, name)
    if made.prepare is not None:
        made.prepare(lock)
    return lock


async def _built_async(made: Object, client: Any, name: str) -> Any:
    lock = made.make(client, name)
    if made.prepare is not None:
        await made.prepare(lock)
    return lock


@contextmanager
def _ours(made: Object, url: str, _workers: int) -> Generator[Make]:
    with interlock.connect(url) as client:
        yield partial(_built, made, client)


@asynccontextmanager
async def _ours_async(made: Object, url: str, _workers: int) -> AsyncGenerator[AsyncMake]:
    async with interlock.asyncio.connect(url) as client:
        yield partial(_built_async, made, client)


@contextmanager
def _redis_py(url: str, workers: int) -> Generator[Make]:
    # The pool raises when it is exhausted, so a user with that many threads has to size it.
    with redis.Redis.from_url(url, max_connections=workers + 1) as client:
        yield partial(client.lock, timeout=LEASE)


@asynccontextmanager
async def _redis_py_async(url: str, workers: int) -> AsyncGenerator[AsyncMake]:
    async with redis.asyncio.Redis.from_url(url, max_connections=workers + 1) as client:

        async def make(name: str) -> AsyncLock:
            return client.lock(name, timeout=LEASE)

        yield make


@contextmanager
def _python_redis_lock(url: str, workers: int) -> Generator[Make]:
    import redis_lock  # noqa: PLC0415 - of the extra `bench`

    with redis.Redis.from_url(url, max_connections=workers + 1) as client:
        yield partial(redis_lock.Lock, client, expire=LEASE)


class _Advisory:
    """pg_advisory_lock, for as long as the connection lives."""

    def __init__(self, connection: Any, name: str) -> None:
        self._execute = connection.execute
        self._name = name

    def acquire(self) -> bool:
        self._execute("SELECT pg_advisory_lock(hashtextextended(%s, 0))", (self._name,))
        return True

    def release(self) -> None:
        self._execute("SELECT pg_advisory_unlock(hashtextextended(%s, 0))", (self._name,))


@contextmanager
def _postgresql(url: str, _workers: int) -> Generator[Make]:
    import psycopg  # noqa: PLC0415 - of the extra `bench`

    with ExitStack() as stack:

        def make(name: str) -> SyncLock:
            # The lock is the connection's, so each worker has one of its own.
            connection = psycopg.connect(url, autocommit=True)
            stack.callback(connection.close)
            return _Advisory(connection, name)

        yield make


THREADS: dict[str, Open] = {
    **{name: partial(_ours, made) for name, made in OBJECTS.items()},
    "redis-py": _redis_py,
    "python-redis-lock": _python_redis_lock,
    "postgresql": _postgresql,
}
TASKS: dict[str, AsyncOpen] = {
    **{name: partial(_ours_async, made) for name, made in OBJECTS.items()},
    "redis-py": _redis_py_async,
}
