"""Elections in the simulator: who follows a dead leader, and when, to the millisecond."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.core.simulator import Simulator
from tests.core.simulator.schedule import Schedule

from interlock._core.objects.election import Election
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.core.simulator.process import Process

LEASE, DIED = 2.0, 20.0
SOON = 0.1
"""Seconds for some round trips."""


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("dies", [True, False], ids=["crash", "pause"])
def test_a_dead_leader_is_followed_within_its_lease(dies: bool, seed: int) -> None:
    """The next one leads when the lease of a dead leader ends, and no look later."""
    world = Simulator(seed, Schedule())
    led: list[tuple[str, float, int | None]] = []

    def candidate(me: Process) -> Generator[Any, Any, None]:
        election = Election(me.client.session, "name", "name", me.name, lambda: ("host", 1))
        world.locks.setdefault(election.key, election)
        yield from me.sleep(0.0 if me.name == "a.1" else 1.0)
        hold = yield from me.acquire(election)
        assert hold is not None
        led.append((me.name, world.now, hold.token))
        yield from me.sleep(3600.0)

    clients = [world.client(Options(lease=LEASE)) for _ in range(3)]
    for client in clients:
        client.spawn(candidate)
    first = clients[0]
    world.timeline.at(DIED, first.crash if dies else lambda: first.pause(3600.0))
    world._run_until(DIED + LEASE + SOON)
    assert [who for who, _, _ in led][:1] == ["a.1"]
    assert len(led) == 2
    assert (led[0][2] or 0) < (led[1][2] or 0)
    assert led[1][1] > DIED + LEASE / 2
