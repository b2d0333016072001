"""Random programs under random faults: whatever the seed, the judge has nothing."""

from __future__ import annotations

import pytest
from tests.core.simulator.workload import KINDS, PROFILES, play

SEEDS = {"lock": 8, "condition": 1, "fenced condition": 1, "write condition": 1, "barrier": 9}
OTHERS = 3
"""Seeds for each profile; ``python -m tests.core.simulator.workload --seeds N`` plays more."""


def test_a_seed_decides_everything() -> None:
    """The same seed gives the same run, event by event; another one gives another."""

    def events(seed: int) -> list[tuple[float, str]]:
        return [(event.at, event.who) for event in play(seed, "lock").timeline.trace]

    assert events(3) == events(3)
    assert events(3) != events(14)


@pytest.mark.parametrize("profile", range(len(PROFILES)))
@pytest.mark.parametrize("kind", KINDS)
def test_all_is_well(kind: str, profile: int) -> None:
    """No schedule of clients, latencies and faults breaks what the judge demands."""
    for number in range(SEEDS.get(kind, OTHERS)):
        play(profile + number * len(PROFILES), kind)
