"""What a process tells operators of itself: its host, its number and its program."""

from __future__ import annotations

import os
import re
import socket
import sys
from pathlib import Path

from interlock._version import __version__

LONGEST = 100
"""Characters of each text."""


def this_process() -> tuple[str, int]:
    """Return the host's name and the number of this process."""
    return socket.gethostname(), os.getpid()


def about_this_process() -> dict[str, object]:
    """Return what a card tells of this process."""
    host, number = this_process()
    return {
        "host": host[:LONGEST],
        "pid": number,
        "program": program()[:LONGEST],
        "version": __version__,
    }


def connection_name(client_id: str) -> str:
    """Return what CLIENT LIST calls the connection of the renewal thread of *client_id*.

    The server takes neither spaces nor anything that is not ASCII.
    """
    about = about_this_process()
    parts = ("interlock", client_id, str(about["host"]), str(about["pid"]), str(about["program"]))
    return ":".join(re.sub(r"[^!-9;-~]", "_", part) for part in parts)


def program() -> str:
    """Return what this process runs: the name of its script or module, without its arguments."""
    given = sys.argv[0] if sys.argv else ""
    path = Path(given)
    # A package that was run by -m has a file of this name in it.
    name = path.parent.name if path.name == "__main__.py" else path.name
    return name if name not in ("", "-c", "-m") else Path(sys.executable or "python").name
