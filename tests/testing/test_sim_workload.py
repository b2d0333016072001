"""Random programs and faults: for any seed every invariant holds, after each step and at rest."""

from __future__ import annotations

import pytest
from tests.support.simulator.workload import KINDS, PROFILES, play

SEEDS = {"lock": 60}
OTHERS = 8
"""Seeds for each profile; ``python -m tests.support.simulator --seeds N`` plays more."""


def test_seed_decides_everything() -> None:
    """The same seed gives the same run, event by event; another one gives another."""

    def events(seed: int) -> list[tuple[float, str]]:
        return [(event.at, event.who) for event in play(seed).timeline.trace]

    assert events(7) == events(7)
    assert events(7) != events(11)


@pytest.mark.parametrize("profile", range(len(PROFILES)))
@pytest.mark.parametrize("kind", KINDS)
def test_invariants_hold(kind: str, profile: int) -> None:
    """No schedule of clients, latencies and faults breaks an invariant of a lock."""
    for number in range(SEEDS.get(kind, OTHERS)):
        play(profile + number * len(PROFILES), kind)


@pytest.mark.parametrize("profile", range(len(PROFILES)))
@pytest.mark.parametrize("kind", KINDS)
def test_invariants_hold_with_replicas(kind: str, profile: int) -> None:
    """No schedule breaks an invariant either while clients ask replicas that come, go and lag."""
    for number in range(OTHERS):
        play(profile + number * len(PROFILES), kind, replicated=True)


def test_forced_releases_let_others_overtake() -> None:
    """Two forced releases let two clients pass one that stands in the queue: it is no error."""
    play(901676, "lock")
