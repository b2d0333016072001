"""Incidents are played with real servers and processes, and operators are told the truth."""

from __future__ import annotations

import pytest
from faultlab.incidents import INCIDENTS, play


@pytest.mark.parametrize("name", ["a holder with a long lease is killed", "two names look alike"])
def test_the_truth_is_told(name: str) -> None:
    """`interlock why` says what is so within half a minute of the incident."""
    [incident] = [each for each in INCIDENTS if each.name == name]
    outcome = play(incident)
    assert outcome.seconds is not None, outcome.account.text
