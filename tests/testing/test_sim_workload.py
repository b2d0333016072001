"""Random programs and faults: for any seed every invariant holds, after each step and at rest."""

from __future__ import annotations

import subprocess
import sys

import pytest
from tests.support.simulator.workload import KINDS, PROFILES, play

SEEDS = {"lock": 60}
OTHERS = 8
"""Seeds for each profile; ``python -m tests.support.simulator --seeds N`` plays more."""


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


def test_command_plays_seeds() -> None:
    """The simulator can be run from the command line, over any range of seeds."""
    command = [sys.executable, "-m", "tests.support.simulator", "--seeds", "2", "--start", "7"]
    ended = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)

    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.startswith("2 seeds, ")
    assert ended.stdout.endswith("every invariant held\n")
