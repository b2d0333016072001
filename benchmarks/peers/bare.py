"""The bare limit: interlock's two scripts sent with as little Python as possible.

Threads: a blocking socket each, with commands packed in advance and hiredis to read the replies.
Tasks: one Protocol for all of them, which resolves replies in their order. It writes at once to an
idle server, and otherwise gathers commands for up to one turn of the loop. Nothing here reconnects,
renews, times out or decides. This is no client, but what a correct client is measured against.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

import hiredis

from benchmarks.peer import AsyncPeer, SyncPeer
from interlock._core.scripts import lock as scripts
from interlock._links.resp import pack_evalsha

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Generator

    from interlock._core.model.effects import Eval

_LEASE = 30.0  # seconds
_FEW = 4  # commands that are not worth a write of their own while the server has something to do
_CLIENT = "00000000-0000-0000-0000-000000000000"  # as long as a real one


def pack(*words: str | int | bytes) -> bytes:
    """Return one command as it is sent."""
    # The annotation of hiredis means one word, and takes a tuple of any length.
    return cast("bytes", hiredis.pack_command(words))  # type: ignore[arg-type]


def _acquire(name: str, number: int = 1) -> Eval[Any]:
    return scripts.lock_acquire(name, _LEASE, f"{_CLIENT}:{number}", 1)


def _release(name: str, number: int = 1) -> Eval[Any]:
    return scripts.lock_release(name, f"{_CLIENT}:{number}", 0, "PUBLISH", channel_of(name))


def load_commands() -> list[bytes]:
    """Return the commands that load both scripts."""
    return [pack("SCRIPT", "LOAD", call("").script.text) for call in (_acquire, _release)]


def acquire_command(name: str, number: int = 1) -> bytes:
    """Return the attempt to take *name*, for the holder *number*."""
    return pack_evalsha(_acquire(name, number))


def release_command(name: str, number: int = 1) -> bytes:
    """Return the release of *name*, which publishes."""
    return pack_evalsha(_release(name, number))


def channel_of(name: str) -> str:
    """Return where the release of *name* is published."""
    return f"redisson_lock__channel:{{{name}}}"


def unexpected(reply: object) -> ConnectionError:
    """Return the error for a reply that cannot be."""
    return ConnectionError(f"the server answered {reply!r}")


def address_of(url: str) -> tuple[str, int]:
    """Return the host and the port of *url*."""
    parts = urlsplit(url)
    return parts.hostname or "localhost", parts.port or 6379


class Connection:
    """A blocking socket that takes packed commands."""

    def __init__(self, address: tuple[str, int]) -> None:
        self._socket = socket.create_connection(address)
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._socket.settimeout(None)
        self._reader = hiredis.Reader()

    def call(self, command: bytes) -> Any:
        """Send *command* and return its reply; an error reply is returned, not raised."""
        self._socket.sendall(command)
        return self.read()

    def send(self, command: bytes) -> None:
        """Send *command*, whose reply is the next to `read`."""
        self._socket.sendall(command)

    def read(self) -> Any:
        """Wait for a reply, or a message."""
        reader = self._reader
        while (reply := reader.gets()) is False:
            data = self._socket.recv(65536)
            if not data:
                raise ConnectionError("the server closed the connection")
            reader.feed(data)
        return reply

    def close(self) -> None:
        """Close the socket."""
        self._socket.close()


class _Lock:
    def __init__(self, connection: Connection, name: str) -> None:
        self._call = connection.call
        self._acquire = acquire_command(name)
        self._release = release_command(name)

    def acquire(self) -> bool:
        if (reply := self._call(self._acquire)) is not None:
            raise unexpected(reply)
        return True

    def release(self) -> None:
        if not (reply := self._call(self._release)):
            raise unexpected(reply)


@dataclass(frozen=True, slots=True)
class _Session:
    address: tuple[str, int]
    connections: list[Connection] = field(default_factory=list[Connection])

    def lock(self, name: str) -> _Lock:
        connection = Connection(self.address)
        self.connections.append(connection)
        return _Lock(connection, name)


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


class Pipe(asyncio.Protocol):
    """One connection for all tasks: replies come back in the order of the commands."""

    def __init__(self) -> None:
        self._loop = asyncio.get_running_loop()
        self._reader = hiredis.Reader()
        self._outgoing: list[bytes] = []
        self._waiting: deque[asyncio.Future[Any]] = deque()
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Keep the transport to write to."""
        self._transport = cast("asyncio.Transport", transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """Fail those that still wait."""
        for waiting in self._waiting:
            if not waiting.done():
                waiting.set_exception(exc or ConnectionError("the connection was closed"))
        self._waiting.clear()

    def call(self, command: bytes) -> asyncio.Future[Any]:
        """Send *command*; its reply may be an error reply.

        If the server has nothing to do, the command is sent at once. Otherwise it is sent with
        others: when as many have gathered as are under way, or at the end of this turn of the loop.
        """
        under_way = len(self._waiting) - len(self._outgoing)
        if under_way and not self._outgoing:
            self._loop.call_soon(self._flush)
        self._outgoing.append(command)
        waiting = self.expect()
        gathered = len(self._outgoing)
        if not under_way or (gathered >= _FEW and gathered >= under_way):
            self._flush()
        return waiting

    def expect(self) -> asyncio.Future[Any]:
        """Return the reply after those already due; on a subscription, the next message."""
        waiting: asyncio.Future[Any] = self._loop.create_future()
        self._waiting.append(waiting)
        return waiting

    def close(self) -> None:
        """Close the connection."""
        assert self._transport is not None
        self._transport.close()

    def _flush(self) -> None:
        assert self._transport is not None
        if self._outgoing:
            self._transport.write(b"".join(self._outgoing))
            self._outgoing.clear()

    def data_received(self, data: bytes) -> None:
        """Hand each whole reply to the one that has waited longest."""
        reader = self._reader
        reader.feed(data)
        while (reply := reader.gets()) is not False:
            if not self._waiting:
                continue  # a message that nobody waits for
            waiting = self._waiting.popleft()
            if not waiting.done():
                waiting.set_result(reply)


class _AsyncLock:
    def __init__(self, pipe: Pipe, name: str) -> None:
        self._call = pipe.call
        self._acquire = acquire_command(name)
        self._release = release_command(name)

    async def acquire(self) -> bool:
        if (reply := await self._call(self._acquire)) is not None:
            raise unexpected(reply)
        return True

    async def release(self) -> None:
        if not (reply := await self._call(self._release)):
            raise unexpected(reply)


@dataclass(frozen=True, slots=True)
class AsyncSession:
    """What all tasks share."""

    pipe: Pipe

    def lock(self, name: str) -> _AsyncLock:
        """Return the lock *name*."""
        return _AsyncLock(self.pipe, name)


@asynccontextmanager
async def open_async(url: str, _workers: int) -> AsyncGenerator[AsyncSession]:
    """Open the one connection of all tasks."""
    transport, pipe = await asyncio.get_running_loop().create_connection(Pipe, *address_of(url))
    try:
        for load in load_commands():
            await pipe.call(load)
        yield AsyncSession(pipe)
    finally:
        transport.close()


SYNC = SyncPeer("bare", ("hiredis",), open=_open)
ASYNC = AsyncPeer("bare", ("hiredis",), open=open_async)
