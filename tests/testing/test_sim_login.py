"""Passwords that change in virtual time: `python -m tests.rotation --virtual`, in short."""

from __future__ import annotations

import pytest
from tests.rotation import play_virtual
from tests.support.simulator.logins import Account

LONGEST = 0.1
"""Seconds of virtual time: what is left to others, and a subscription that connects anew."""


@pytest.mark.parametrize("tells", [True, False])
def test_a_password_that_changes_costs_nobody_a_hold_or_a_turn(tells: bool) -> None:
    """A hundred holds last, and nobody waits longer, while every connection must log in anew."""
    gaps, account, wrong = play_virtual(8.0, 4.0, 1, tells=tells, checked=True)
    assert wrong == []
    assert account.changes == 3
    assert account.logins > 10
    # Who is told how long a password works logs in before the server closes the connection.
    assert (account.closed == 0) is tells
    assert max(gaps.before) < LONGEST
    assert max(gaps.during) < LONGEST


def test_the_same_seed_is_the_same_hour() -> None:
    """Virtual time depends on nothing but the seed."""
    first, second = (play_virtual(4.0, 2.0, 7, tells=True, checked=False)[0] for _ in range(2))
    assert first == second


def test_a_client_that_keeps_its_password_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """The simulated server lets nobody in with a former password, and all holds are lost then."""
    monkeypatch.setattr(Account, "get_credentials", lambda _: ("app", "secret 0", 2.0))
    _, account, wrong = play_virtual(16.0, 2.0, 1, tells=True, checked=False)
    assert account.refused
    assert sum("is lost" in each for each in wrong) == 100
