"""Where a command finds its ticket, and how a new one is written."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import suppress
from pathlib import Path

from interlock.cli.status import UsageError

LONGEST = 100_000
"""Characters of a ticket that are read."""


def read_ticket(path: str) -> str:
    """Return the ticket in the file *path*; ``-`` is stdin.

    Raises:
        UsageError: it cannot be read.
    """
    try:
        if path == "-":
            return sys.stdin.read(LONGEST).strip()
        with Path(path).open(encoding="utf-8") as file:
            return file.read(LONGEST).strip()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"cannot read the ticket: {error}") from error


class NewFile:
    """A file for a ticket, with mode 600; it takes its place only when the ticket is there.

    Raises:
        UsageError: it cannot be written there.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        try:
            self._file, self._beside = tempfile.mkstemp(
                prefix=f".{self._path.name}.", dir=self._path.parent
            )
        except OSError as error:
            raise UsageError(f"cannot write the ticket: {error}") from error

    def present(self) -> str:
        """Return the text that is there now, without the spaces around it; "" if none is."""
        try:
            with self._path.open(encoding="utf-8", errors="replace") as file:
                return file.read(LONGEST).strip()
        except OSError:
            return ""

    def write(self, ticket: str) -> None:
        """Write *ticket*, in place of a ticket that was there.

        Raises:
            OSError: it cannot be written.
        """
        os.write(self._file, f"{ticket}\n".encode())
        os.fsync(self._file)
        Path(self._beside).replace(self._path)

    def close(self) -> None:
        """Remove what was not written."""
        os.close(self._file)
        with suppress(OSError):
            Path(self._beside).unlink()
