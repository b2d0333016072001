"""Whoever is struck while it waits leaves nothing, and does not keep the lock from others."""

from __future__ import annotations

import pytest
from tests.core.strikes import play

STRIDE = 29
"""Opcodes from strike to strike."""


@pytest.mark.filterwarnings("ignore:unclosed <socket")  # struck while it was being opened
@pytest.mark.parametrize("twice", [False, True], ids=["once", "twice"])
@pytest.mark.parametrize("waits", [False, True], ids=["timed-out", "granted"])
@pytest.mark.parametrize("kind", ["lock", "fair_lock", "fenced_lock"])
def test_a_strike_at_a_waiter_leaves_nothing(
    redis_url: str, kind: str, *, waits: bool, twice: bool
) -> None:
    """Soon after the error is seen the next one has the lock, and its client nothing."""
    count = play(redis_url, kind, waits=waits, twice=twice, stride=STRIDE)
    assert count * STRIDE > 1000
