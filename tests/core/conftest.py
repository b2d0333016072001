"""Fixtures of the unit tests of the core."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.core.bench import Bench, Play

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def bench() -> Bench:
    """Give a client with a renewed lock named x."""
    return Bench()


@pytest.fixture
def make_bench() -> Callable[..., Bench]:
    """Give the maker of clients with other options."""
    return Bench


@pytest.fixture
def play() -> type[Play]:
    """Give what plays an operation by hand."""
    return Play
