"""Run the console, and drive it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from playwright.sync_api import Page

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["Page", "served"]


@contextmanager
def served(
    redis_url: str,
    *arguments: str,
    allow_release: bool = False,
    port: int = 0,
    token: str = "",
    listen: str = "127.0.0.1",
) -> Iterator[str]:
    """Run ``interlock console`` until the block is left; give its URL."""
    command = [
        *(sys.executable, "-m", "interlock", "console"),
        *("--listen", f"{listen}:{port}", "--url", redis_url),
        *(["--allow-release"] if allow_release else []),
        *arguments,
    ]
    environ = {**os.environ, "INTERLOCK_CONSOLE_TOKEN": token}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        try:
            assert found is not None, line + process.stderr.read()
            yield found[0]
        finally:
            process.terminate()
            process.wait(20)
