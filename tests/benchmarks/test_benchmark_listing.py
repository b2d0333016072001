"""The goals of the listing: each one that is missed is named."""

from __future__ import annotations

import pytest
from benchmarks.listing import LIMITS, exceeded


def test_what_keeps_every_limit_is_fine() -> None:
    """Figures at their limits exceed nothing."""
    assert exceeded(dict(LIMITS), []) == []


@pytest.mark.parametrize("name", LIMITS)
def test_each_limit_counts(name: str) -> None:
    """A figure above its limit is named, and so is a server that was blocked."""
    [told] = exceeded({**LIMITS, name: LIMITS[name] + 1}, [])
    assert told.startswith(f"{name}: ")
    [told] = exceeded(dict(LIMITS), ["command"])
    assert "blocked" in told
