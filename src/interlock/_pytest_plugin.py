"""The fixtures ``interlock_server`` and ``interlock_fake``.

pytest loads this module in every run, wherever interlock is installed. So nothing but pytest is
imported here, and what is missing fails only the tests that ask for it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Generator

    from interlock.testing import FakeClient


@pytest.fixture(scope="session")
def interlock_server() -> Generator[str, None, None]:
    """The URL of a real server of this test session's own, which begins empty.

    All tests of a process share it. It needs a server program, or interlock[embedded].
    """
    from interlock.testing import server  # noqa: PLC0415 - see the head of the module

    with server() as url:
        yield url


@pytest.fixture
def interlock_fake() -> Generator[FakeClient, None, None]:
    """A client of a fake server, which is new for each test; its attribute `url` is the URL.

    It needs interlock[testing], but no server program.
    """
    from interlock.testing import fake  # noqa: PLC0415 - see the head of the module

    with fake() as client:
        yield client
