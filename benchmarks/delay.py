"""A proxy that makes a server seem far away: what comes in either direction goes on later.

It is a process of its own, so that it delays no measurement: `python -m benchmarks.delay TARGET
SECONDS`, where the target is a port of this machine or the path of a socket. It prints its port,
and ends with its standard input.
"""

from __future__ import annotations

import asyncio
import collections
import selectors
import subprocess
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Generator

_ROOT = Path(__file__).parents[1]


@contextmanager
def far_away(target: str, round_trip: float) -> Generator[int]:
    """Start a proxy before *target*, with so many seconds for a round trip; yield its port."""
    command = [sys.executable, "-m", "benchmarks.delay", target, str(round_trip / 2)]
    with subprocess.Popen(
        command, cwd=_ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as proxy:
        assert proxy.stdin is not None
        assert proxy.stdout is not None
        try:
            yield int(proxy.stdout.readline())
        finally:
            proxy.stdin.close()


class _End(asyncio.Protocol):
    """One end of a connection; what it hears goes to the other end, *seconds* later."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.other: _End | None = None
        self.transport: asyncio.Transport | None = None
        # In order, though two timers may end at the same instant. None closes.
        self._coming: collections.deque[bytes | None] = collections.deque()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self._later(data)

    def connection_lost(self, _error: Exception | None) -> None:
        self._later(None)

    def _later(self, data: bytes | None) -> None:
        self._coming.append(data)
        asyncio.get_running_loop().call_later(self.seconds, self._pass_on)

    def _pass_on(self) -> None:
        data = self._coming.popleft()
        transport = None if self.other is None else self.other.transport
        if transport is None or transport.is_closing():
            return
        if data is None:
            transport.close()
        else:
            transport.write(data)


class _Near(_End):
    """The client's end: it connects to the target before it reads."""

    def __init__(self, seconds: float, target: str) -> None:
        super().__init__(seconds)
        self._target = target
        self._connecting: asyncio.Task[None] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        assert self.transport is not None
        self.transport.pause_reading()
        self._connecting = asyncio.get_running_loop().create_task(self._connect())

    async def _connect(self) -> None:
        loop, far = asyncio.get_running_loop(), _End(self.seconds)
        far.other, self.other = self, far
        assert self.transport is not None
        try:
            if self._target.isdigit():
                await loop.create_connection(lambda: far, "127.0.0.1", int(self._target))
            else:
                await loop.create_unix_connection(lambda: far, self._target)
        except OSError:
            self.transport.close()
            return
        self.transport.resume_reading()


async def _serve(target: str, seconds: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: _Near(seconds, target), "127.0.0.1", 0)
    print(server.sockets[0].getsockname()[1], flush=True)
    await loop.run_in_executor(None, sys.stdin.read)
    server.close()


if __name__ == "__main__":
    # Timers of `select` are exact; those of the usual loop are whole milliseconds.
    with asyncio.Runner(
        loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())
    ) as runner:
        runner.run(_serve(sys.argv[1], float(sys.argv[2])))
