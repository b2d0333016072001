"""Random programs under random faults: whatever the seed, the judge has nothing."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.simulator import Simulator
from tests.core.simulator.schedule import Schedule
from tests.core.simulator.workload import KINDS, PROFILES, play

from interlock._core.objects.count_down_latch import CountDownLatch
from interlock.errors import InterlockError
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.core.simulator.process import Process

SEEDS = {"lock": 8, "condition": 1, "fenced condition": 1, "write condition": 1, "barrier": 9}
OTHERS = 3
"""Seeds for each profile; ``python -m tests.core.simulator.workload --seeds N`` plays more."""


@pytest.mark.parametrize("profile", range(len(PROFILES)))
@pytest.mark.parametrize("kind", KINDS)
def test_all_is_well(kind: str, profile: int) -> None:
    """No schedule of clients, latencies and faults breaks what the judge demands."""
    for number in range(SEEDS.get(kind, OTHERS)):
        play(profile + number * len(PROFILES), kind)


def test_a_wait_for_a_latch_that_sets_its_count_ends_in_time() -> None:
    """Its timeout, and not that of an outage, limits what comes before the first look."""
    world, ended = Simulator(0, Schedule()), list[float]()

    def program(me: Process) -> Generator[Any, Any, None]:
        latch = CountDownLatch(me.client.session, "name", "name", 1)
        with suppress(InterlockError):
            yield from me.perform(latch.wait(me.until(0.2)))
        ended.append(world.now)

    world.network.go_down(10.0)
    world.client(Options(command_timeout=0.5, outage_timeout=5.0)).spawn(program)
    world._run_until(8.0)
    assert ended[0] < 2.0
