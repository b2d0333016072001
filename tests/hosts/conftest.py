"""Fixtures for the tests inside of other people's frameworks."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.hosts.host_process import Hosts

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


@pytest.fixture
def hosts(tmp_path: Path, redis_url: str) -> Iterator[Hosts]:
    """Start processes in a directory of the test's own, on the emptied shared server."""
    started = Hosts(tmp_path, redis_url)
    yield started
    started.close()
