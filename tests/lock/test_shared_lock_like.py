"""Locks that several owners hold take the input that every lock-like takes.

The catalogue tells which locks they are (`Kind.shared`); the side for readers is one, too.
"""

from __future__ import annotations

import pytest
from tests.lock.lock_like import SHARED, Kind
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


@pytest.fixture(params=SHARED, ids=lambda kind: kind.name)
def kind(request: pytest.FixtureRequest) -> Kind:
    """Give each lock that several owners may hold."""
    return request.param
