"""The yardstick for delays: a PING on a bare socket, there and back."""

from __future__ import annotations

import socket
from time import perf_counter
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

_PING = b"*1\r\n$4\r\nPING\r\n"
_PONG = b"+PONG\r\n"


class Pinger:
    """One connection to a server on loopback."""

    def __init__(self, port: int) -> None:
        self._socket = socket.create_connection(("127.0.0.1", port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._socket.close()

    def once(self) -> float:
        """Return the seconds of one round trip."""
        begin = perf_counter()
        self._socket.sendall(_PING)
        reply = self._socket.recv(64)
        taken = perf_counter() - begin
        if reply != _PONG:
            raise ConnectionError(f"the server answered {reply!r}")
        return taken

    def repeat(self, times: int) -> list[float]:
        """Return the seconds of *times* round trips, one directly after the other."""
        return [self.once() for _ in range(times)]
