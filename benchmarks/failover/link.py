"""The line from a primary to its replica: it delays data, and loses it when the machine dies."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from typing import TYPE_CHECKING, Any, Self

from tests.support.address import LOOPBACK

if TYPE_CHECKING:
    from collections.abc import Coroutine

_CHUNK = 65536


class Link:
    """Relays the connections of a replica to its primary, byte by byte, in a thread of its own.

    Attributes:
        port: Where the replica finds what it takes for the primary.
        target: The primary's port.
        delay: Seconds for which whatever the primary sends is held back.
    """

    def __init__(self) -> None:
        self.port = 0
        self.target = 0
        self.delay = 0.0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="link")
        self._server: asyncio.Server
        self._relays: set[asyncio.Task[Any]] = set()

    def __enter__(self) -> Self:
        """Start to listen."""
        self._thread.start()
        self._call(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        """Hang up and end the thread."""
        self._call(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def sever(self) -> None:
        """Cut the connections; delayed data is lost, as in a machine that loses its power."""
        self._call(self._sever())

    def _call(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._server = await asyncio.start_server(self._accept, LOOPBACK, 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def _sever(self) -> None:
        for relay in self._relays:
            relay.cancel()
        await asyncio.gather(*self._relays, return_exceptions=True)

    async def _end(self) -> None:
        self._server.close()
        await self._sever()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._relays.add(task)
        try:
            with contextlib.suppress(OSError):  # nobody listens there yet; the replica comes again
                there, back = await asyncio.open_connection(LOOPBACK, self.target)
                try:
                    await self._relay(reader, back, there, writer)
                finally:
                    back.transport.abort()
        except asyncio.CancelledError:
            return  # severed; the callback of asyncio's streams would report it
        finally:
            self._relays.discard(task)
            writer.transport.abort()

    async def _relay(
        self,
        replica: asyncio.StreamReader,
        to_primary: asyncio.StreamWriter,
        primary: asyncio.StreamReader,
        to_replica: asyncio.StreamWriter,
    ) -> None:
        async with asyncio.TaskGroup() as pumps:
            up = pumps.create_task(_pump(replica, to_primary, lambda: 0.0))
            down = pumps.create_task(_pump(primary, to_replica, lambda: self.delay))
            await asyncio.wait((up, down), return_when=asyncio.FIRST_COMPLETED)
            up.cancel()
            down.cancel()


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, delay: Any) -> None:
    with contextlib.suppress(OSError):  # a side that is gone is what links are for
        while data := await reader.read(_CHUNK):
            if seconds := delay():
                await asyncio.sleep(seconds)
            writer.write(data)
            await writer.drain()
