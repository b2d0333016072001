"""Fixtures of the core's tests at a real server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

import interlock

if TYPE_CHECKING:
    from collections.abc import Iterator


LEASE = 90.0
"""Seconds of a lease that no test outlives; and the upkeep seldom comes to renew it."""


@pytest.fixture
def client(redis_url: str) -> Iterator[interlock.Client]:
    with interlock.connect(redis_url, lease=LEASE) as made:
        yield made


@pytest.fixture
def other(redis_url: str) -> Iterator[interlock.Client]:
    with interlock.connect(redis_url, lease=LEASE) as made:
        yield made


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(16) as made:
        yield made
