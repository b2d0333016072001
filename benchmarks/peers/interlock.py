"""interlock itself, as its README shows it."""

from __future__ import annotations

import itertools
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import interlock
import interlock.asyncio
from benchmarks.peer import AsyncPeer, SyncPeer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator, Sequence

    from benchmarks.peer import AsyncLock, AsyncSession, SyncLock, SyncSession


@contextmanager
def _open(url: str, _workers: int) -> Generator[SyncSession]:
    with interlock.connect(url) as client:
        yield client


@asynccontextmanager
async def _open_async(url: str, _workers: int) -> AsyncGenerator[AsyncSession]:
    async with interlock.asyncio.connect(url) as client:
        yield client


SYNC = SyncPeer("interlock", ("interlock", "redis", "hiredis"), open=_open)
ASYNC = AsyncPeer("interlock", ("interlock", "redis", "hiredis"), open=_open_async)


class _Clients:
    """A client for each lock, as if each thread were a process of its own."""

    def __init__(self, url: str, stack: ExitStack) -> None:
        self._url = url
        self._stack = stack

    def lock(self, name: str) -> SyncLock:
        return self._stack.enter_context(interlock.connect(self._url)).lock(name)


@contextmanager
def _open_clients(url: str, _workers: int) -> Generator[SyncSession]:
    with ExitStack() as stack:
        yield _Clients(url, stack)


class _AsyncClients:
    """The same for tasks: each contends by a client of its own."""

    def __init__(self, clients: Sequence[interlock.asyncio.Client]) -> None:
        self._clients = itertools.cycle(clients)

    def lock(self, name: str) -> AsyncLock:
        return next(self._clients).lock(name)


@asynccontextmanager
async def _open_async_clients(url: str, workers: int) -> AsyncGenerator[AsyncSession]:
    async with AsyncExitStack() as stack:
        clients: list[interlock.asyncio.Client] = []
        for _ in range(workers):
            clients.append(await stack.enter_async_context(interlock.asyncio.connect(url)))
            await clients[-1].lock("first").locked()  # one after the other: each connects
        yield _AsyncClients(clients)


CLIENTS = replace(SYNC, name="a client each", open=_open_clients)
ASYNC_CLIENTS = replace(ASYNC, name="a client each", open=_open_async_clients)

CLUSTER = (replace(SYNC, name="in a cluster"), replace(ASYNC, name="in a cluster"))
"""Opened with the URL of a cluster."""
