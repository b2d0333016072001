"""Locks over a majority of servers, and the plain lock on one of the same servers."""

from __future__ import annotations

import contextlib
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import interlock
import interlock.asyncio
from benchmarks.peer import AsyncPeer, SyncPeer
from benchmarks.peers import bare_quorum, pottery
from benchmarks.peers import interlock as plain

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from benchmarks.peer import AsyncLock, Peer, SyncLock


@dataclass(frozen=True, slots=True)
class _Session:
    clients: list[interlock.Client]

    def lock(self, name: str) -> SyncLock:
        return interlock.RedLock(*(client.lock(name) for client in self.clients))


@dataclass(frozen=True, slots=True)
class _AsyncSession:
    clients: list[interlock.asyncio.Client]

    def lock(self, name: str) -> AsyncLock:
        return interlock.asyncio.RedLock(*(client.lock(name) for client in self.clients))


@contextmanager
def _open(urls: str, _workers: int) -> Generator[_Session]:
    with contextlib.ExitStack() as stack:
        yield _Session([stack.enter_context(interlock.connect(url)) for url in urls.split()])


@asynccontextmanager
async def _open_async(urls: str, _workers: int) -> AsyncGenerator[_AsyncSession]:
    async with contextlib.AsyncExitStack() as stack:
        opened = [
            await stack.enter_async_context(interlock.asyncio.connect(url)) for url in urls.split()
        ]
        yield _AsyncSession(opened)


_LATE = 2 / 5  # two of five servers need not answer

QUORUM: tuple[Peer, ...] = (
    SyncPeer("red lock", plain.SYNC.packages, open=_open, late=_LATE),
    AsyncPeer("red lock", plain.ASYNC.packages, open=_open_async, late=_LATE),
    bare_quorum.SYNC,
    bare_quorum.ASYNC,
    replace(pottery.SYNC, name="pottery over all"),
    replace(pottery.ASYNC, name="pottery over all"),
)
"""Opened with all URLs; every other peer is opened with the first."""
