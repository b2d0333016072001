"""Run the console, and drive it."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING

from playwright.sync_api import Page
from tests.support.patience import GIVE_UP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import RedisServer

__all__ = ["ARGUMENTS", "CHROMIUM", "LEASE", "Page", "fill", "served"]

CHROMIUM = "/usr/bin/chromium"
ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]
LEASE = 6.0
"""Seconds; short, but a loaded machine renews it in time."""


def fill(server: RedisServer, count: int) -> None:
    """Put so many locks of one foreign client on *server*: ``many:1`` and so on."""
    script = (
        "for n = 1, ARGV[1] do local k = 'many:' .. n "
        "redis.call('HSET', k, '00000000-0000-0000-0000-000000000000:' .. n, 1) "
        "redis.call('PEXPIRE', k, 600000) end"
    )
    server.execute("EVAL", script, "0", str(count))


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
            process.wait(GIVE_UP)
