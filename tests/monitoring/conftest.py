"""Fixtures for metrics, the exporter and the console."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import interlock

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock import Client


@pytest.fixture
def client(redis_url: str) -> Iterator[Client]:
    """Give a client that renews often."""
    with interlock.connect(redis_url, lease=0.9) as client:
        yield client
