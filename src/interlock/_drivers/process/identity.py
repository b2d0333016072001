"""How a process introduces itself to operators: with its host, process id and program."""

from __future__ import annotations

import os
import socket
import sys
from pathlib import Path

from interlock._core.insight.connection_name import connection_name as named
from interlock._version import __version__

LONGEST = 100
"""The most characters of each text."""


def new_client_id() -> str:
    """Return an id that no other client has: a UUID."""
    drawn = os.urandom(16)
    # As RFC 9562 has version 4. The module uuid takes long to load.
    bits = int.from_bytes(drawn) & ~(0xF000 << 64 | 0xC000 << 48) | 0x4000 << 64 | 0x8000 << 48
    digits = f"{bits:032x}"
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def this_process() -> tuple[str, int]:
    """Return the name of the host and the id of this process."""
    return socket.gethostname(), os.getpid()


def about_this_process() -> dict[str, object]:
    """Return the fields of a card that describe this process."""
    host, number = this_process()
    return {
        "host": host[:LONGEST],
        "pid": number,
        "program": program()[:LONGEST],
        "version": __version__,
    }


def connection_name(client_id: str) -> str:
    """Return the name in CLIENT LIST for the connection of a lane of *client_id*.

    The server accepts neither spaces nor characters outside ASCII.
    """
    about = about_this_process()
    return named(client_id, str(about["host"]), about["pid"], str(about["program"]))


def program() -> str:
    """Return the name of the script or module that this process runs, without its arguments."""
    given = sys.argv[0] if sys.argv else ""
    path = Path(given)
    # ``python -m package`` runs the file of this name in the package.
    name = path.parent.name if path.name == "__main__.py" else path.name
    return name if name not in ("", "-c", "-m") else Path(sys.executable or "python").name
