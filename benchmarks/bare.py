"""The yardstick for instructions: a lock with as little Python as possible.

It sends two short scripts, and reads their replies with hiredis. It does not reconnect, renew, time
out or decide: what a client does beyond this is the client's own.
"""

from __future__ import annotations

import asyncio
import hashlib
import socket
from collections import deque
from contextlib import asynccontextmanager, contextmanager
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import hiredis

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from benchmarks.peers import AsyncMake, Make

_ACQUIRE = (
    """if redis.call('set', KEYS[1], ARGV[1], 'nx', 'px', 30000) then return nil end return 0"""
)
_RELEASE = """return redis.call('del', KEYS[1])"""
_HOLDER = "00000000-0000-0000-0000-000000000000:1"


def _pack(*words: str | int) -> bytes:
    # The annotation of hiredis means one word, and takes a tuple of any length.
    return cast("bytes", hiredis.pack_command(words))  # type: ignore[arg-type]


def _load() -> list[bytes]:
    return [_pack("SCRIPT", "LOAD", text) for text in (_ACQUIRE, _RELEASE)]


def _evalsha(text: str, name: str) -> bytes:
    digest = hashlib.sha1(text.encode(), usedforsecurity=False).hexdigest()
    return _pack("EVALSHA", digest, 1, name, _HOLDER)


def _address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return parts.hostname or "localhost", parts.port or 6379


class _Connection:
    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._reader = hiredis.Reader()

    def call(self, command: bytes) -> Any:
        self._socket.sendall(command)
        reader = self._reader
        while (reply := reader.gets()) is False:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the server closed the connection")
            reader.feed(data)
        return reply

    def close(self) -> None:
        self._socket.close()


class _Lock:
    def __init__(self, connection: _Connection, name: str) -> None:
        self._call = connection.call
        self._acquire = _evalsha(_ACQUIRE, name)
        self._release = _evalsha(_RELEASE, name)

    def acquire(self) -> bool:
        if (reply := self._call(self._acquire)) is not None:
            raise ConnectionError(f"the server answered {reply!r}")
        return True

    def release(self) -> None:
        if not (reply := self._call(self._release)):
            raise ConnectionError(f"the server answered {reply!r}")


@contextmanager
def threads(url: str, _workers: int) -> Generator[Make]:
    """Open a connection for one thread."""
    connection = _Connection(_address(url))
    try:
        for command in _load():
            connection.call(command)
        yield lambda name: _Lock(connection, name)
    finally:
        connection.close()


class _Pipe(asyncio.Protocol):
    """One connection for all tasks: replies come back in the order of the commands."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._waiting: deque[asyncio.Future[Any]] = deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.Transport", transport)

    def call(self, command: bytes) -> asyncio.Future[Any]:
        waiting: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(waiting)
        self._transport.write(command)
        return waiting

    def data_received(self, data: bytes) -> None:
        reader = self._reader
        reader.feed(data)
        while (reply := reader.gets()) is not False:
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(reply)


class _AsyncLock:
    def __init__(self, pipe: _Pipe, name: str) -> None:
        self._call = pipe.call
        self._acquire = _evalsha(_ACQUIRE, name)
        self._release = _evalsha(_RELEASE, name)

    async def acquire(self) -> bool:
        if (reply := await self._call(self._acquire)) is not None:
            raise ConnectionError(f"the server answered {reply!r}")
        return True

    async def release(self) -> None:
        if not (reply := await self._call(self._release)):
            raise ConnectionError(f"the server answered {reply!r}")


@asynccontextmanager
async def tasks(url: str, _workers: int) -> AsyncGenerator[AsyncMake]:
    """Open the one connection of all tasks."""
    loop = asyncio.get_running_loop()
    transport, pipe = await loop.create_connection(_Pipe, *_address(url))

    async def make(name: str) -> _AsyncLock:
        return _AsyncLock(pipe, name)

    try:
        for command in _load():
            await pipe.call(command)
        yield make
    finally:
        transport.close()
