"""A server whose wall clock is stepped: a small library is loaded into it, see ``clock.c``."""

from __future__ import annotations

import contextlib
import mmap
import os
import subprocess
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from tests.support.servers import RedisServer

from .leftovers import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from typing import Self

_SOURCE = Path(__file__).with_name("clock.c")


class ClockedServer:
    """A server with a clock of its own; a context manager, to be entered before the server.

    Attributes:
        server: The server.
    """

    def __init__(self, binary: Path, config: Mapping[str, str | int]) -> None:
        self.server = RedisServer(binary, config=config)
        self._offset = 0
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        """Build the library and make the clock's file."""
        with contextlib.ExitStack() as stack:
            home = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix=PREFIX)))
            library, shown = home / "clock.so", home / "offset"
            build = ["gcc", "-O1", "-shared", "-fPIC", "-o", str(library), str(_SOURCE)]
            subprocess.run(build, check=True)
            shown.write_bytes(bytes(8))
            with shown.open("r+b") as file:
                self._memory = stack.enter_context(mmap.mmap(file.fileno(), 8))
            stack.enter_context(_environment(library, shown))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        """Remove both."""
        self._stack.close()

    def restart(self, *, empty: bool) -> None:
        """Restart the server with its clock."""
        self.server.restart(empty=empty)

    def step(self, seconds: float) -> None:
        """Step the clock by *seconds*."""
        self._offset += int(seconds * 1_000_000)
        self._memory[:] = self._offset.to_bytes(8, "little", signed=True)


@contextlib.contextmanager
def _environment(library: Path, shown: Path) -> Iterator[None]:
    """Let servers start with the library; `Slot` takes it from the workers."""
    added = {"LD_PRELOAD": str(library), "FAULTLAB_CLOCK": str(shown)}
    os.environ.update(added)
    try:
        yield
    finally:
        for name in added:
            del os.environ[name]
