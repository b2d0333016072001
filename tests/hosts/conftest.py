"""Fixtures for the tests inside of other people's frameworks."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.hosts.host_process import Hosts


@pytest.fixture
def hosts(tmp_path: Path, redis_url: str) -> Iterator[Hosts]:
    """Start processes in a directory of the test's own, on the emptied shared server."""
    started = Hosts(tmp_path, redis_url)
    yield started
    started.close()
