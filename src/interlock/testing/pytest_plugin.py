"""Fixtures for tests.

``interlock_server`` and ``interlock_url`` are of a real server, ``interlock_fake`` needs none.

pytest loads this module in every run, wherever interlock is installed. So nothing but pytest is
imported here. A missing server program fails the tests that ask for a server, and no others.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from interlock.testing.fake import FakeServer

_LINGER = 5.0  # seconds that the server outlives a test process that was killed


@pytest.fixture(scope="session")
def interlock_server() -> Generator[str, None, None]:
    """Run a private, empty, unsaved server for this test session and give its ``unix://`` URL.

    It is stopped at the end, and ends by itself should the test process be killed.
    """
    from interlock._embedded import EmbeddedServer  # noqa: PLC0415 - see the head of the module

    # pytest's own temporary directories have paths too long for a socket.
    with tempfile.TemporaryDirectory(prefix="interlock-") as directory:
        server = EmbeddedServer(Path(directory))
        try:
            # Joined for as long as the tests run, connected or not. Meanwhile the supervisor asks
            # the server nothing, so that tests can count commands and connections.
            with server.joined(linger=_LINGER) as url:
                yield url
        finally:
            server.stop()


@pytest.fixture
def interlock_url(interlock_server: str) -> str:
    """Empty the session's server and give its URL."""
    from urllib.parse import unquote, urlsplit  # noqa: PLC0415 - see the head of the module

    from interlock._embedded.supervisor import ask  # noqa: PLC0415

    assert ask(unquote(urlsplit(interlock_server).path), "FLUSHALL") == ["+OK"]
    return interlock_server


@pytest.fixture
def interlock_fake() -> Generator[FakeServer, None, None]:
    """Run an empty imitated server for this test.

    It needs ``interlock[testing]``, but no server program.
    """
    from interlock.testing.fake import FakeServer  # noqa: PLC0415 - see the head of the module

    with FakeServer() as fake:
        yield fake
