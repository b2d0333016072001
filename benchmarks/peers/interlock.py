"""interlock itself, as its README shows it."""

from __future__ import annotations

from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

import interlock
import interlock.asyncio
from benchmarks.peer import AsyncPeer, SyncPeer

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from benchmarks.peer import AsyncSession, SyncLock, SyncSession


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


CLIENTS = replace(SYNC, name="a client each", open=_open_clients)

CLUSTER = (replace(SYNC, name="in a cluster"), replace(ASYNC, name="in a cluster"))
"""Opened with the URL of a cluster."""
