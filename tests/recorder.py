"""A stand-in for a connection, for tests of when something is written."""

from __future__ import annotations

import asyncio


class Recorder(asyncio.Transport):
    """A transport that keeps what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Keep *data*."""
        self.writes.append(bytes(data))

    def abort(self) -> None:
        """Be closed."""
