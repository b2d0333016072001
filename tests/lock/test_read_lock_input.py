"""The side for readers takes the input that every lock-like takes."""

from __future__ import annotations

import pytest
from tests.lock.lock_like import READ, Kind
from tests.lock.test_lock_input import (
    test_a_closed_client,
    test_arguments_of_acquire,
    test_arguments_of_extend,
    test_arguments_of_the_factory,
    test_names,
    test_timeouts_that_threading_takes,
)

__all__ = [
    "test_a_closed_client",
    "test_arguments_of_acquire",
    "test_arguments_of_extend",
    "test_arguments_of_the_factory",
    "test_names",
    "test_timeouts_that_threading_takes",
]


@pytest.fixture
def kind() -> Kind:
    """Give the lock of readers."""
    return READ
