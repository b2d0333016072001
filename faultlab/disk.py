"""A small file system under a server's data, which can be filled."""

from __future__ import annotations

import contextlib
import errno
import subprocess
from typing import TYPE_CHECKING

from .leftovers import PREFIX

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.support.servers import RedisServer

_SIZE = "8m"


class Small:
    """The file system.

    Args:
        path: Where it is mounted.
    """

    def __init__(self, path: Path) -> None:
        self._path = path

    @contextlib.contextmanager
    def full(self) -> Iterator[None]:
        """Have no byte left on it."""
        filler = self._path / "filler"
        try:
            with filler.open("wb", buffering=0) as file:
                for size in (65536, 512, 1):
                    with contextlib.suppress(BlockingIOError):
                        _write_until_full(file.write, size)
            yield
        finally:
            filler.unlink()


def _write_until_full(write: object, size: int) -> None:
    assert callable(write)
    while True:
        try:
            write(bytes(size))
        except OSError as error:
            if error.errno == errno.ENOSPC:
                return
            raise


@contextlib.contextmanager
def small(server: RedisServer) -> Iterator[Small]:
    """Put the data of the running *server* on a file system of 8 MB, and restart it there.

    Raises:
        PermissionError: This machine does not allow mounts.
    """
    path = server.unix_path.parent / "data"
    server.kill()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={_SIZE}", f"{PREFIX}disk", str(path)],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        raise PermissionError(f"no mount on this machine: {mounted.stderr.strip()}")
    try:
        server.restart(empty=False)
        yield Small(path)
    finally:
        server.kill()
        subprocess.run(["umount", "--lazy", str(path)], check=True)
