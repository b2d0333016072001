"""A file that refuses a late writer: its first line is the largest token that has written it.

`flock` makes the check and the write one step for the processes of one machine. Do not use it on a
network file system, which may not lock.
"""

from __future__ import annotations

import fcntl
import os
import tempfile
from pathlib import Path

from interlock.fencing import StaleTokenError


def write(path: Path, text: str, token: int) -> None:
    """Replace the text of the file, unless a newer hold has written it.

    Raises:
        StaleTokenError: a newer hold has written; nothing was changed.
    """
    # The lock is on a file of its own, because the rename replaces the other one.
    with path.with_suffix(".flock").open("w", encoding="utf-8") as guard:
        fcntl.flock(guard, fcntl.LOCK_EX)
        newest = int(path.read_text(encoding="utf-8").split("\n", 1)[0]) if path.exists() else 0
        if token < newest:
            raise StaleTokenError(f"token {token} is too old", token=token, newest=newest)
        with tempfile.NamedTemporaryFile(
            "w", dir=path.parent, delete=False, encoding="utf-8"
        ) as new:
            new.write(f"{token}\n{text}")
            new.flush()
            os.fsync(new.fileno())
        Path(new.name).replace(path)


def read(path: Path) -> str:
    """Return the text of the file."""
    return path.read_text(encoding="utf-8").split("\n", 1)[1]
