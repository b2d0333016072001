"""Every promise is held by a test."""

from __future__ import annotations

from tests.promises import held, promised


def test_each_promise_has_a_test() -> None:
    """Each row of the page of promises has an id, and a test that is marked with it."""
    ids = promised()
    assert "" not in ids
    assert set(held()) == set(ids)
