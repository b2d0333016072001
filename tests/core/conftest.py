"""Fixtures of the unit tests of the core."""

from __future__ import annotations

import pytest
from tests.core.bench import Bench, Play


@pytest.fixture
def bench() -> Bench:
    """Give a client with a renewed lock named x."""
    return Bench()


@pytest.fixture
def play() -> type[Play]:
    """Give what plays an operation by hand."""
    return Play
