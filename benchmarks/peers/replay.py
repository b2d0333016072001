"""The own bare limit of each object: what the object sends, sent again by bare sockets.

Each worker first lets the object itself make two pairs, through a proxy that takes down their
commands: the first loads the scripts, the second is recorded. From then on the worker sends the
recorded bytes and reads the replies. As `bare` it does not reconnect, renew, time out or decide.

A script that finds the latch of its own call does nothing: it was executed before. So the recorded
acquire removes the latch of the release, as it does in the object's next pair (`in_a_circle`).
"""

from __future__ import annotations

import asyncio
import threading
from contextlib import ExitStack, asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import hiredis
from tests.support.proxy import FaultProxy

from benchmarks.peer import AsyncPeer, SyncPeer
from benchmarks.peers.bare import Connection, Pipe, address_of, pack, unexpected

if TYPE_CHECKING:
    from collections.abc import AsyncGenerator, Awaitable, Callable, Generator, Sequence

    from benchmarks.peer import AsyncLock, AsyncSession, Peer, SyncLock, SyncSession


LATCH = b"redisson_unlock_latch:"
"""How the latches of calls begin that take effect once."""


def name_of(peer: Peer) -> str:
    """Return what the limit of *peer* is called."""
    return f"bare {peer.name}"


def _leaves(peer: Peer) -> tuple[str, ...]:
    return (*peer.leaves, *[f"bare {prefix}" for prefix in peer.leaves])


@dataclass(frozen=True, slots=True)
class _Step:
    """Half a pair.

    Attributes:
        commands: As they are sent, in one write.
        replies: How many answer them.
    """

    commands: bytes
    replies: int

    @classmethod
    def of(cls, sent: Sequence[Sequence[bytes]]) -> _Step:
        """Return the step that sends the commands *sent*."""
        return cls(b"".join(pack(*words) for words in sent), len(sent))


def _recorded(proxy: FaultProxy) -> list[list[bytes]]:
    """Return the scripts that *proxy* has taken down, and begin anew."""
    sent = [request.args for request in proxy.record if request.args[0] == b"EVALSHA"]
    proxy.clear_record()
    if not sent:
        raise RuntimeError("the object has sent no script")
    return sent


def _latches(sent: Sequence[Sequence[bytes]]) -> set[bytes]:
    return {word for words in sent for word in words if word.startswith(LATCH)}


def in_a_circle(acquire: list[list[bytes]], release: list[list[bytes]]) -> list[list[bytes]]:
    """Return *acquire* so that it removes the latch of *release*, in place of an older one."""
    old, new = _latches(acquire) - _latches(release), _latches(release) - _latches(acquire)
    latch_of = dict(zip(old, new, strict=True))
    return [[latch_of.get(word, word) for word in words] for words in acquire]


class _Lock:
    def __init__(self, connection: Connection, acquire: _Step, release: _Step) -> None:
        self._connection = connection
        self._acquire = acquire
        self._release = release

    def _send(self, step: _Step) -> bool:
        reply = self._connection.call(step.commands)
        if isinstance(reply, hiredis.ReplyError):
            raise unexpected(reply)
        for _ in range(step.replies - 1):
            if isinstance(reply := self._connection.read(), hiredis.ReplyError):
                raise unexpected(reply)
        return True

    def acquire(self) -> bool:
        return self._send(self._acquire)

    def release(self) -> None:
        self._send(self._release)


@dataclass(frozen=True, slots=True)
class _Session:
    proxy: FaultProxy
    inner: SyncSession
    address: tuple[str, int]
    stack: ExitStack
    guard: threading.Lock = field(default_factory=threading.Lock)

    def lock(self, name: str) -> SyncLock:
        with self.guard:
            real = self.inner.lock(name)
            real.acquire()
            real.release()
            self.proxy.clear_record()
            real.acquire()
            acquire = _recorded(self.proxy)
            real.release()
            release = _recorded(self.proxy)
            connection = Connection(self.address)
            self.stack.callback(connection.close)
        return _Lock(connection, _Step.of(in_a_circle(acquire, release)), _Step.of(release))


def of_threads(peer: SyncPeer) -> SyncPeer:
    """Return the bare limit of *peer*."""

    @contextmanager
    def session(url: str, workers: int) -> Generator[SyncSession]:
        address = address_of(url)
        with ExitStack() as stack:
            proxy = stack.enter_context(FaultProxy(address))
            inner = stack.enter_context(peer.open(proxy.url(), workers))
            yield _Session(proxy, inner, address, stack)

    return SyncPeer(name_of(peer), peer.packages, peer.calls, leaves=_leaves(peer), open=session)


class _AsyncLock:
    """Records at its first acquire, which is the first that may wait."""

    acquire: Callable[[], Awaitable[bool]]

    def __init__(self, session: _AsyncSession, name: str) -> None:
        self._session = session
        self._pipe = session.pipe
        self._name = name
        self.acquire = self._first
        self._steps: tuple[_Step, _Step] | None = None

    async def _first(self) -> bool:
        self._steps = await self._session.record(self._name)
        self.acquire = self._acquire
        return await self._acquire()

    async def _acquire(self) -> bool:
        assert self._steps is not None
        return await self._send(self._steps[0])

    async def release(self) -> None:
        assert self._steps is not None
        await self._send(self._steps[1])

    async def _send(self, step: _Step) -> bool:
        reply: Any = self._pipe.call(step.commands)
        for _ in range(step.replies - 1):
            reply = self._pipe.expect()
        if isinstance(answer := await reply, hiredis.ReplyError):
            raise unexpected(answer)
        return True


@dataclass(frozen=True, slots=True)
class _AsyncSession:
    proxy: FaultProxy
    inner: AsyncSession
    pipe: Pipe
    guard: asyncio.Lock = field(default_factory=asyncio.Lock)

    def lock(self, name: str) -> AsyncLock:
        return _AsyncLock(self, name)

    async def record(self, name: str) -> tuple[_Step, _Step]:
        async with self.guard:
            real = self.inner.lock(name)
            await real.acquire()
            await real.release()
            self.proxy.clear_record()
            await real.acquire()
            acquire = _recorded(self.proxy)
            await real.release()
            release = _recorded(self.proxy)
            return _Step.of(in_a_circle(acquire, release)), _Step.of(release)


def of_tasks(peer: AsyncPeer) -> AsyncPeer:
    """Return the bare limit of *peer*."""

    @asynccontextmanager
    async def session(url: str, workers: int) -> AsyncGenerator[AsyncSession]:
        address = address_of(url)
        with FaultProxy(address) as proxy:
            async with peer.open(proxy.url(), workers) as inner:
                loop = asyncio.get_running_loop()
                _, pipe = await loop.create_connection(Pipe, *address)
                try:
                    yield _AsyncSession(proxy, inner, pipe)
                finally:
                    pipe.close()

    return AsyncPeer(name_of(peer), peer.packages, peer.calls, leaves=_leaves(peer), open=session)


def limits(*chosen: Peer) -> tuple[Peer, ...]:
    """Return the bare limits of *chosen*, each beside its object."""
    return tuple(
        of_threads(peer) if isinstance(peer, SyncPeer) else of_tasks(peer)
        for peer in chosen
        if isinstance(peer, SyncPeer | AsyncPeer)
    )
