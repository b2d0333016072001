"""The bare limit of a lock that many want: the bare pair, and the least there is of waiting.

In a process a local mutex lets one worker at a time ask the server. If the lock is taken, the
worker waits for a message on one bare subscription for each name, and asks again. Like `bare`, this
does not reconnect, renew, time out or hear of a lost message. Nor is it fair: a limit, no client.
"""

from __future__ import annotations

import asyncio
import os
import threading
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from benchmarks.peer import AsyncPeer, SyncPeer
from benchmarks.peers.bare import (
    Connection,
    Pipe,
    acquire_command,
    address_of,
    channel_of,
    load_commands,
    pack,
    release_command,
    unexpected,
)

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator


class _Place:
    """A name as all threads of the process know it."""

    def __init__(self, address: tuple[str, int], name: str) -> None:
        self.mutex = threading.Lock()
        self._name = name
        self._address = address
        self._connection: Connection | None = None

    def wait(self) -> None:
        """Wait for a message; the first call only subscribes, so that one can come."""
        if self._connection is None:
            self._connection = Connection(self._address)
            self._connection.call(pack("SUBSCRIBE", channel_of(self._name)))
        else:
            self._connection.read()

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()


class _Lock:
    def __init__(self, connection: Connection, place: _Place, name: str) -> None:
        self._call = connection.call
        self._place = place
        self._acquire = acquire_command(name, os.getpid())
        self._release = release_command(name, os.getpid())

    def acquire(self) -> bool:
        self._place.mutex.acquire()
        while (reply := self._call(self._acquire)) is not None:
            if not isinstance(reply, int):
                raise unexpected(reply)
            self._place.wait()
        return True

    def release(self) -> None:
        if not (reply := self._call(self._release)):
            raise unexpected(reply)
        self._place.mutex.release()


@dataclass(frozen=True, slots=True)
class _Session:
    address: tuple[str, int]
    places: dict[str, _Place] = field(default_factory=dict[str, _Place])
    connections: list[Connection] = field(default_factory=list[Connection])
    guard: threading.Lock = field(default_factory=threading.Lock)

    def lock(self, name: str) -> _Lock:
        with self.guard:
            connection = Connection(self.address)
            self.connections.append(connection)
            place = self.places.setdefault(name, _Place(self.address, name))
        return _Lock(connection, place, name)


@contextmanager
def _open(url: str, _workers: int) -> Generator[_Session]:
    session = _Session(address_of(url))
    try:
        loader = Connection(session.address)
        session.connections.append(loader)
        for load in load_commands():
            loader.call(load)
        yield session
    finally:
        for connection in session.connections:
            connection.close()
        for place in session.places.values():
            place.close()


class _AsyncPlace:
    """A name as all tasks of the loop know it."""

    def __init__(self, address: tuple[str, int], name: str) -> None:
        self.mutex = asyncio.Lock()
        self._name = name
        self._address = address
        self._pipe: Pipe | None = None

    async def wait(self) -> None:
        """Wait for a message; the first call only subscribes, so that one can come."""
        if self._pipe is None:
            loop = asyncio.get_running_loop()
            _, self._pipe = await loop.create_connection(Pipe, *self._address)
            await self._pipe.call(pack("SUBSCRIBE", channel_of(self._name)))
            self._next: asyncio.Future[Any] = self._pipe.expect()
        else:
            await self._next
            self._next = self._pipe.expect()

    def close(self) -> None:
        if self._pipe is not None:
            self._next.cancel()
            self._pipe.close()


class _AsyncLock:
    def __init__(self, pipe: Pipe, place: _AsyncPlace, name: str) -> None:
        self._call = pipe.call
        self._place = place
        self._acquire = acquire_command(name, os.getpid())
        self._release = release_command(name, os.getpid())

    async def acquire(self) -> bool:
        await self._place.mutex.acquire()
        while (reply := await self._call(self._acquire)) is not None:
            if not isinstance(reply, int):
                raise unexpected(reply)
            await self._place.wait()
        return True

    async def release(self) -> None:
        if not (reply := await self._call(self._release)):
            raise unexpected(reply)
        self._place.mutex.release()


@dataclass(frozen=True, slots=True)
class _AsyncSession:
    address: tuple[str, int]
    pipe: Pipe
    places: dict[str, _AsyncPlace] = field(default_factory=dict[str, _AsyncPlace])

    def lock(self, name: str) -> _AsyncLock:
        place = self.places.setdefault(name, _AsyncPlace(self.address, name))
        return _AsyncLock(self.pipe, place, name)


@asynccontextmanager
async def _open_async(url: str, _workers: int) -> AsyncGenerator[_AsyncSession]:
    address = address_of(url)
    _, pipe = await asyncio.get_running_loop().create_connection(Pipe, *address)
    session = _AsyncSession(address, pipe)
    try:
        for load in load_commands():
            await pipe.call(load)
        yield session
    finally:
        pipe.close()
        for place in session.places.values():
            place.close()


SYNC = SyncPeer("bare lock", ("hiredis",), open=_open)
ASYNC = AsyncPeer("bare lock", ("hiredis",), open=_open_async)
