"""Open tabs of the console, without a browser."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from tests.support.patience import GIVE_UP

import interlock.asyncio

if TYPE_CHECKING:
    from asyncio import StreamReader
    from collections.abc import AsyncIterator

TABS = 100


@asynccontextmanager
async def _request(url: str, path: str, *headers: str) -> AsyncIterator[StreamReader]:
    """Send a request on a connection of its own; give its answer."""
    host, port = url.removeprefix("http://").strip("/").split(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    lines = [f"GET {path} HTTP/1.1", f"Host: {host}", "Connection: close", *headers, "", ""]
    writer.write("\r\n".join(lines).encode())
    await writer.drain()
    try:
        yield reader
    finally:
        writer.close()


async def _changed(events: StreamReader) -> None:
    """Wait until the console tells of a reading."""
    while b"event: changed" not in (line := await events.readline()):
        assert line, "the console has hung up"


async def _tab(url: str, name: str, ready: asyncio.Barrier) -> float:
    """Do what a tab does until it shows the lock *name*; return when that was."""
    async with _request(url, "/events") as events:
        await _changed(events)
        await ready.wait()
        while True:
            await _changed(events)
            async with _request(url, "/", "X-Part: live") as answer:
                if name.encode() in await answer.read():
                    return time.monotonic()


async def delays(url: str, redis_url: str) -> list[float]:
    """Return the seconds after which each of `TABS` tabs shows a new lock, sorted.

    Raises:
        TimeoutError: one never shows it.
    """
    ready = asyncio.Barrier(TABS + 1)
    async with (
        asyncio.timeout(GIVE_UP),
        interlock.asyncio.connect(redis_url) as client,
        asyncio.TaskGroup() as group,
    ):
        tabs = [group.create_task(_tab(url, "crowded", ready)) for _ in range(TABS)]
        await ready.wait()
        started = time.monotonic()
        async with client.lock("crowded"):
            await asyncio.wait(tabs)
    return sorted(tab.result() - started for tab in tabs)
