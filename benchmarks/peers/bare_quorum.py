"""The bare limit of a lock over several servers: each gets what `bare` sends to one.

All commands are sent before any reply is read. Nothing here counts a majority or gives back. It
shows the cost of asking all servers at once where client and servers share the processors.
"""

from __future__ import annotations

import contextlib
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from benchmarks.peer import AsyncPeer, SyncPeer
from benchmarks.peers import bare

if TYPE_CHECKING:
    import asyncio
    from collections.abc import AsyncGenerator, Generator, Sequence
    from typing import Any


class _Lock:
    def __init__(self, connections: Sequence[bare.Connection], name: str) -> None:
        self._connections = connections
        self._acquire = bare.acquire_command(name)
        self._release = bare.release_command(name)

    def acquire(self) -> bool:
        replies = self._call(self._acquire)
        if any(reply is not None for reply in replies):
            raise bare.unexpected(replies)
        return True

    def release(self) -> None:
        replies = self._call(self._release)
        if not all(replies):
            raise bare.unexpected(replies)

    def _call(self, command: bytes) -> list[object]:
        for connection in self._connections:
            connection.send(command)
        return [connection.read() for connection in self._connections]


@dataclass(frozen=True, slots=True)
class _Session:
    addresses: Sequence[tuple[str, int]]
    connections: list[bare.Connection] = field(default_factory=list[bare.Connection])

    def lock(self, name: str) -> _Lock:
        opened = [bare.Connection(address) for address in self.addresses]
        self.connections.extend(opened)
        return _Lock(opened, name)


@contextmanager
def _open(urls: str, _workers: int) -> Generator[_Session]:
    session = _Session([bare.address_of(url) for url in urls.split()])
    try:
        for address in session.addresses:
            loader = bare.Connection(address)
            session.connections.append(loader)
            for load in bare.load_commands():
                loader.call(load)
        yield session
    finally:
        for connection in session.connections:
            connection.close()


class _AsyncLock:
    def __init__(self, pipes: Sequence[bare.Pipe], name: str) -> None:
        self._pipes = pipes
        self._acquire = bare.acquire_command(name)
        self._release = bare.release_command(name)

    async def acquire(self) -> bool:
        for reply in self._call(self._acquire):
            if (answer := await reply) is not None:
                raise bare.unexpected(answer)
        return True

    async def release(self) -> None:
        for reply in self._call(self._release):
            if not (answer := await reply):
                raise bare.unexpected(answer)

    def _call(self, command: bytes) -> list[asyncio.Future[Any]]:
        return [pipe.call(command) for pipe in self._pipes]


@dataclass(frozen=True, slots=True)
class _AsyncSession:
    pipes: Sequence[bare.Pipe]

    def lock(self, name: str) -> _AsyncLock:
        return _AsyncLock(self.pipes, name)


@asynccontextmanager
async def _open_async(urls: str, workers: int) -> AsyncGenerator[_AsyncSession]:
    async with contextlib.AsyncExitStack() as stack:
        pipes = [
            (await stack.enter_async_context(bare.open_async(url, workers))).pipe
            for url in urls.split()
        ]
        yield _AsyncSession(pipes)


SYNC = SyncPeer("bare over all", bare.SYNC.packages, open=_open)
ASYNC = AsyncPeer("bare over all", bare.ASYNC.packages, open=_open_async)
