"""The connections of the console: those without a request take no room from others.

A browser opens connections in advance, and some clients open many and send nothing. Each takes a
file descriptor. If none is left, no one else can connect.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from uvicorn.protocols.http.h11_impl import H11Protocol

if TYPE_CHECKING:
    import asyncio

FIRST_REQUEST = 10.0
"""Seconds until a connection without a request is closed."""
MOST = 400
"""Connections, of which the silent ones make room for others; most systems allow 1,024 files."""


class Connection(H11Protocol):
    """A connection that is closed if it sends no request in time, or if others need its place."""

    _began = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take a new connection; close the oldest silent one if there are very many."""
        if len(self.connections) >= MOST:
            others = [cast("Connection", each) for each in self.connections]
            oldest = min(others, key=lambda each: (each.answered, each._began))  # noqa: SLF001
            oldest.end_silent()
        super().connection_made(cast("asyncio.Transport", transport))
        self._began = self.loop.time()
        _ = self.loop.call_later(FIRST_REQUEST, self.end_silent)

    @property
    def answered(self) -> bool:
        """Return whether it has sent a request."""
        # Before the first one it is None, which uvicorn's types do not tell.
        return cast("object", self.cycle) is not None

    def end_silent(self) -> None:
        """Close it if it has sent no request."""
        if not self.answered:
            self.transport.abort()
