"""Run the console, and ask it."""

from __future__ import annotations

import http.client
import re
import subprocess
import sys
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from tests.support.patience import GIVE_UP

if TYPE_CHECKING:
    from collections.abc import Iterator

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


@contextmanager
def served(*words: str) -> Iterator[str]:
    """Run the command `interlock` with *words* until the block is left; give the URL that it names."""
    command = [sys.executable, "-m", "interlock", *words]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://\S+", line)
        try:
            assert found is not None, line + process.stderr.read()
            yield found[0]
        finally:
            process.terminate()
            rest = process.communicate(timeout=GIVE_UP)[1]
        assert (process.returncode, rest) == (0, "")


def console_of(redis_url: str, *, port: int = 0) -> AbstractContextManager[str]:
    """Run ``interlock console`` until the block is left; give its URL."""
    return served("console", "--port", str(port), "--url", redis_url)


class Answer:
    """The answer to a request."""

    def __init__(self, answer: http.client.HTTPResponse) -> None:
        self.status = answer.status
        self.headers = {key.lower(): value for key, value in answer.getheaders()}
        self.text = answer.read().decode()


def ask(url: str, path: str = "/", method: str = "GET", **headers: str) -> Answer:
    """Send one request; *headers* have ``_`` for ``-``."""
    place = urlsplit(url)
    connection = http.client.HTTPConnection(place.hostname or "", place.port, timeout=GIVE_UP)
    named = {key.replace("_", "-"): value for key, value in headers.items()}
    connection.request(method, path, headers=named)
    try:
        return Answer(connection.getresponse())
    finally:
        connection.close()
