"""Elections in the simulator: who follows a dead leader, and when, to the millisecond."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.core.bench import Bench, Play
from tests.lock.every_fault import OPTIONS
from tests.support.simulator import Simulator
from tests.support.simulator.schedule import Schedule, crash, pause

from interlock._core.model.effects import Cleanup
from interlock._core.objects.election import Election
from interlock._core.upkeep.session import GRACE
from interlock.errors import HoldLostError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.support.simulator import Process

LEASE: float = OPTIONS["lease"]
DIED = 20.0
SOON = 0.1
"""Seconds for some round trips."""


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fault", [crash("a"), pause(3600.0, "a")], ids=["crash", "pause"])
def test_a_dead_leader_is_followed_within_its_lease(fault: Any, seed: int) -> None:
    """The next one leads when the lease of a dead leader ends, and no poll cap later."""
    simulator = Simulator(seed, schedule=Schedule(times=[(DIED, fault)]))
    led: list[tuple[str, float, int]] = []

    def candidate(me: Process) -> Generator[Any, Any, object]:
        election = Election(me.client.session, "name", me.name, lambda: ("host", 1))
        yield me.pass_time(0.0 if me.name == "first" else 1.0)
        hold = yield me.acquire(election)
        led.append((me.name, simulator.now, hold.token))
        yield me.pass_time(3600.0)
        return True

    for name in ("first", "second", "third"):
        simulator.spawn(simulator.client(**{**OPTIONS, "poll_cap": 3600.0}), candidate, name)
    simulator.run_for(DIED + LEASE + SOON)
    assert (led[0][0], led[0][2]) == ("first", 1)
    assert len(led) == 2
    assert led[1][2] == 2
    assert led[1][1] > DIED + LEASE / 2


def test_an_interrupted_announcement_is_undone_promptly() -> None:
    """After a Ctrl-C a candidate waits for no outage: the background ends the term that it got."""
    bench = Bench()
    election = Election(bench.session, "name", None, lambda: ("host", 1))
    campaign = Play(election.acquire(bench.owner, bench.now + 60, None))
    campaign.answer([1, 7, b"counter"])
    assert campaign.effect.script.name == "election_announce"
    campaign.answer(KeyboardInterrupt())
    assert campaign.effect.script.name == "fenced_lock_release"
    assert campaign.effect.deadline == bench.now + GRACE
    campaign.answer(ServerUnavailableError("no answer", sent=True, transient=True))
    assert isinstance(campaign.effect, Cleanup)
    with pytest.raises(KeyboardInterrupt):
        campaign.answer(None)
    assert list(bench.session.holds) == []


def test_a_term_that_is_over_before_its_announcement_is_released() -> None:
    """A candidate whose term is gone is told so, and ends what late copies may have got for it."""
    bench = Bench()
    election = Election(bench.session, "name", None, lambda: ("host", 1))
    campaign = Play(election.acquire(bench.owner, bench.now + 60, None)).answer([1, 7, b"counter"])
    campaign.answer(0)
    assert campaign.effect.script.name == "fenced_lock_release"
    with pytest.raises(HoldLostError):
        campaign.answer(None)
    assert list(bench.session.holds) == []
