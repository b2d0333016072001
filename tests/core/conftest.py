"""Fixtures of the core's tests at a real server."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Give threads that wait."""
    with ThreadPoolExecutor(16) as made:
        yield made
