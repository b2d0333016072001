"""A server whose clock is stepped, by libfaketime from Debian's package ``faketime``."""

from __future__ import annotations

import contextlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from interlock.testing.servers import RedisServer

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self

_LIBRARIES = ("/usr/lib/*/faketime/libfaketimeMT.so.1", "/usr/lib64/faketime/libfaketimeMT.so.1")


class ClockedServer:
    """A server with a clock of its own; a context manager.

    Attributes:
        server: The server.
        steps: Whether its clock can be stepped here.
    """

    def __init__(self, binary: Path, config: Mapping[str, str | int]) -> None:
        self.server = RedisServer(binary, config=config)
        found = [path for pattern in _LIBRARIES for path in Path("/").glob(pattern[1:])]
        self.steps = bool(found)
        self._library = found[0] if found else None
        self._offset = 0.0
        self._home = Path(tempfile.mkdtemp(prefix="faultlab-clock-"))
        self._file = self._home / "time"

    def __enter__(self) -> Self:
        """Write the clock's file; the server is started by its own context."""
        self._set(0.0)
        self._starting = contextlib.ExitStack()
        self._starting.enter_context(self._environment())
        return self

    def __exit__(self, *_: object) -> None:
        """Remove the file."""
        self._starting.close()
        self._file.unlink()
        self._home.rmdir()

    def restart(self, *, empty: bool) -> None:
        """Restart the server with its clock."""
        self.server.restart(empty=empty)

    def step(self, seconds: float) -> None:
        """Step the clock by *seconds*."""
        self._set(self._offset + seconds)

    def _set(self, offset: float) -> None:
        self._offset = offset
        partial = self._home / "new"
        partial.write_text(f"{offset:+.3f}\n")
        partial.rename(self._file)

    @contextlib.contextmanager
    def _environment(self) -> Iterator[None]:
        """Have servers start with the library. Every process that starts in the lab inherits it."""
        if self._library is None:
            yield
            return
        added = {
            "LD_PRELOAD": str(self._library),
            "FAKETIME_TIMESTAMP_FILE": str(self._file),
            "FAKETIME_NO_CACHE": "1",
            "FAKETIME_DONT_FAKE_MONOTONIC": "1",
        }
        os.environ.update(added)
        try:
            yield
        finally:
            for name in added:
                del os.environ[name]
