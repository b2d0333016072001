"""Removes what an earlier lab that was killed has left behind.

Processes end with the lab, by the kernel's help. Directories and namespaces do not. So their names
have the process id of their lab.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path

PREFIX = f"faultlab-{os.getpid()}-"
_NAME = re.compile(r"faultlab-(\d+)-")


def remove() -> None:
    """Remove directories of labs that do not run any more."""
    for found in Path(tempfile.gettempdir()).iterdir():
        if _is_dead(found.name):
            shutil.rmtree(found)


def _is_dead(name: str) -> bool:
    """Return whether *name* belongs to a lab that does not run any more."""
    match = _NAME.match(name)
    return match is not None and not Path(f"/proc/{match[1]}").exists()
