"""Work in threads that all who want its result share: a signal anywhere hinders no later caller."""

from __future__ import annotations

from tests.core.strikes import strike

from interlock._links.dialling import Shared

LIMIT = 5.0
"""Seconds for what takes milliseconds."""


def test_a_signal_as_work_begins() -> None:
    """Whoever wants the same afterwards gets it, though no thread was started for the first one."""
    shared, at, struck = Shared[int]("interlock-test"), 0, True
    while struck:
        at += 1
        struck = strike(lambda: shared.begin("key", lambda: 1), at)
        assert shared.begin("key", lambda: 1).result(LIMIT) == 1, f"after {at}"
    assert at > 30
