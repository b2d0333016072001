"""Fixtures for the tests that run the command."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.cli.cli_process import Runs

if TYPE_CHECKING:
    from collections.abc import Iterator

    from tests.support.servers import RedisServer


@pytest.fixture
def runs(redis_url: str) -> Iterator[Runs]:
    runs = Runs(redis_url)
    yield runs
    runs.close()


@pytest.fixture
def own_runs(fresh_server: RedisServer) -> Iterator[Runs]:
    """Run the command against a server that the test may harm."""
    runs = Runs(fresh_server.url())
    yield runs
    runs.close()
