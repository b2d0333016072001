"""Run the console, and drive it."""

from __future__ import annotations

import http.client
import os
import re
import subprocess
import sys
from contextlib import contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlencode

from playwright.sync_api import Page
from tests.support.patience import GIVE_UP

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import RedisServer

__all__ = ["ARGUMENTS", "CHROMIUM", "LEASE", "Page", "ask", "fill", "served"]

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
    # A name of somebody else that leads here, as after a change of his DNS.
    "--host-resolver-rules=MAP rebound.example 127.0.0.1",
    # Not every browser protects this machine from pages elsewhere.
    "--disable-features=LocalNetworkAccessChecks",
]
LEASE = 30.0
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
    breaks: list[str] | None = None,
) -> Iterator[str]:
    """Run ``interlock console`` until the block is left; give its URL.

    Its log of broken holds is added to *breaks* then.
    """
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
            rest = process.communicate(timeout=GIVE_UP)[1]
        lines = rest.splitlines()
        logged = [line for line in lines if "was released by force" in line]
        if breaks is not None:
            breaks += logged
        logged += [line for line in lines if "the console cannot read the locks: " in line]
        assert (process.returncode, [line for line in lines if line not in logged]) == (0, [])


class Answer:
    """The answer to a request."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = {key.lower(): value for key, value in answer.getheaders()}
        self.text = "" if "event-stream" in str(answer.headers) else answer.read().decode()

    @property
    def cookie(self) -> str:
        """Return the cookie that it sets."""
        return self.headers["set-cookie"].partition(";")[0]

    @property
    def form(self) -> str:
        """Return the token of its form."""
        found = re.search(r'name="form" value="(\w+)"', self.text)
        assert found is not None
        return found[1]


def ask(url: str, path: str = "/", *, form: dict[str, str] | None = None, **given: str) -> Answer:
    """Send one request; *given* are headers, with ``_`` for ``-``.

    A form is sent as by a page of the console, unless *given* has another Origin.
    """
    host, port = url.removeprefix("http://").strip("/").rsplit(":", 1)
    connection = http.client.HTTPConnection(host, int(port), timeout=GIVE_UP)
    headers = {key.replace("_", "-"): value for key, value in given.items()}
    if form is None:
        connection.request("GET", path, headers=headers)
    else:
        headers.setdefault("Origin", url.rstrip("/"))
        headers["Content-Type"] = "application/x-www-form-urlencoded"
        connection.request("POST", path, urlencode(form), headers)
    try:
        return Answer(connection.getresponse())
    finally:
        connection.close()
