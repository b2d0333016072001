"""Barriers in the simulator: generations never mix, and no dead party holds up the others."""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.every_fault import FAULTS, OPTIONS
from tests.support.simulator import Simulator
from tests.support.simulator.schedule import (
    EFFECT_KINDS,
    Interrupted,
    Schedule,
    abandon,
    crash,
    delay_request,
    pause,
    restart,
)

from interlock._core.model.effects import NEVER
from interlock._core.objects.barrier import Barrier
from interlock.errors import BrokenBarrierError, InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tests.support.simulator import Process

    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.holds import Hold
    from interlock._core.upkeep.idempotency import IdempotentCall

    Work = Generator[Any, Any, object]

PARTIES = 3
LEASE: float = OPTIONS["lease"]
ALL = {**FAULTS, "killed-before": abandon("before"), "killed-after": abandon("after")}
RATES = {**dict.fromkeys(EFFECT_KINDS, 0.02), "crash": 0.1, "pause": 0.2, "outage": 0.1}
RATES |= {"deafen": 0.1, "lose messages": 0.1}
SOON = 0.1
"""Seconds for some round trips."""


class Party(Barrier):
    """A barrier for one wait; it tells whose that is."""

    holder = ""

    def _arrive_and_wait(self, party: Hold, request: IdempotentCall, deadline: float) -> Op[int]:
        self.holder = party.holder
        return super()._arrive_and_wait(party, request, deadline)


class World:
    """Parties of one barrier: what the server counted, and how their waits ended.

    Attributes:
        arrivals: the generation and the index of each party, as the server counted it.
        ends: what each wait came to: an index or an error.
        ended_at: when the last wait of each process ended.
    """

    def __init__(self, schedule: Schedule, *, seed: int = 1, **options: Any) -> None:
        self.simulator = Simulator(seed, schedule=schedule, invariants=())
        self.options = {**OPTIONS, **options}
        self.arrivals: dict[str, tuple[str, int]] = {}
        self.ends: dict[str, object] = {}
        self.ended_at: dict[str, float] = {}
        self.played: dict[str, Process] = {}
        network, left = self.simulator.network, set[str]()
        run = network.run

        def observed(call: Eval[object]) -> object:
            reply: Any = run(call)
            name, party = call.script.name, str(call.args[0]) if call.args else ""
            if name == "barrier_arrive" and isinstance(reply, list) and reply[1] >= 0:
                # One that has left hears the same when a late copy comes, and is not counted.
                if party not in left:
                    self.arrivals[party] = (reply[0].decode(), reply[1])
            elif name == "barrier_leave" and reply == 1:
                left.add(party)
                del self.arrivals[party]
            return reply

        network.run = observed  # type: ignore[method-assign]

    def add(self, name: str, program: Callable[[Process], Work]) -> None:
        """Start *program* in a client of its own."""
        client = self.simulator.client(**self.options)
        self.played[name] = self.simulator.spawn(client, program, name)

    def party(
        self, timeout: float = NEVER, *, later: float = 0.0, rounds: int = 1
    ) -> Callable[[Process], Work]:
        """Return a program that waits some times, and mends the barrier if it is broken."""

        def program(me: Process) -> Work:
            yield me.pass_time(later)
            for _ in range(rounds):
                barrier = Party(me.client.session, "name", PARTIES)
                end: object
                try:
                    end = yield barrier.wait(me.client.clock() + timeout)
                except (InterlockError, Interrupted) as error:
                    end = error
                self.ends[barrier.holder] = end
                self.ended_at[me.name] = self.simulator.now
                if rounds > 1 and isinstance(end, BrokenBarrierError):
                    with suppress(InterlockError, Interrupted):
                        yield barrier.reset()
            return end

        return program

    def check_generations(self) -> None:
        """Check that each party that passed did so with all others of its generation."""
        generations: dict[str, dict[str, int]] = {}
        for party, (generation, index) in self.arrivals.items():
            generations.setdefault(generation, {})[party] = index
        for parties in generations.values():
            assert len(parties) <= PARTIES
            assert len(set(parties.values())) == len(parties), "an index was given twice"
            complete = len(parties) == PARTIES
            for party, index in parties.items():
                end = self.ends.get(party)
                if isinstance(end, int):
                    assert complete, f"{party} passed without the others"
                    assert end == index
                elif complete:
                    assert not isinstance(end, BrokenBarrierError), f"{party} was left behind"
        for party, end in self.ends.items():
            assert not isinstance(end, int) or party in self.arrivals

    def check_rest(self) -> None:
        """Let all faults end. Check that others can use the barrier afterwards."""
        self.simulator.heal()
        self.simulator.run_for(2 * LEASE + 20)
        for client in self.simulator.clients:
            if not client.crashed:
                assert not client.session.holds.snapshot()
                assert client.session.waiters.channels() == []
        reset = Barrier(self.simulator.clients[-1].session, "name", PARTIES).reset()
        assert self.simulator.network.run(reset.begin()) == 1  # type: ignore[arg-type]
        for number in range(PARTIES):
            self.add(f"again {number}", self.party(5.0))
        self.simulator.run_for(5)
        indexes = [self.played[f"again {number}"].result for number in range(PARTIES)]
        assert sorted(indexes) == list(range(PARTIES))  # type: ignore[type-var]
        assert all(stored.ttl for stored in self.simulator.network.dump().values())


def _play(schedule: Schedule, **options: Any) -> World:
    """Play three parties that come one after the other, and a late one in place of one of them."""
    world = World(schedule, **options)
    for number in range(PARTIES):
        world.add(f"p{number}", world.party(20.0, later=number * 0.05))
    world.add("spare", world.party(5.0, later=2 * LEASE))
    while world.simulator.running():
        world.simulator.run_for(1)
        assert world.simulator.now < 40, "somebody waits for ever"
    return world


@pytest.mark.parametrize("number", [0, 2], ids=["first", "last"])
@pytest.mark.parametrize("fault", ALL)
def test_one_fault_at_every_effect(fault: str, number: int) -> None:
    """Wherever a fault befalls a party, the others all pass or none does, and nothing is left."""
    name = f"p{number}"
    world = _play(Schedule())
    effects = len(world.played[name].effects)
    assert effects >= (2 if number else 4)
    for place in range(1, effects + 1):  # after its sleep
        world = _play(Schedule({(name, place): ALL[fault]}))
        world.check_generations()
        others = [world.played[f"p{each}"].result for each in range(PARTIES) if each != number]
        kinds = {type(end) for end in others}
        assert len(kinds) == 1, (place, others)
        own = world.played[name].result
        assert kinds == {int} or not isinstance(own, int | Interrupted), (place, own)
        if fault in ("interrupted-before", "interrupted-after") and world.ended_at[name] < 0.09:
            # It has taken its arrival back before the others came: the late one comes instead.
            assert isinstance(world.played["spare"].result, int), place
        world.check_rest()


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("fault", [crash("a"), pause(3600.0, "a")], ids=["crash", "pause"])
def test_a_dead_party_breaks_it_within_its_lease(fault: Any, seed: int) -> None:
    """A party that dies or freezes holds up the others for its lease, and no poll cap longer."""
    schedule = Schedule(times=[(5.0, fault)])
    world = World(schedule, seed=seed, poll_cap=3600.0)
    for number in range(2):
        world.add(f"p{number}", world.party())
    world.simulator.run_for(5 + LEASE + SOON)
    assert isinstance(world.played["p1"].result, BrokenBarrierError)
    assert world.ended_at["p1"] > 5 + LEASE / 2


@pytest.mark.parametrize("how", ["abort", "reset"])
@pytest.mark.parametrize("moment", range(12))
def test_an_end_agrees_with_arrivals(how: str, moment: int) -> None:
    """An abort or reset that meets the last arrival lets all pass or none."""

    def ender(me: Process) -> Work:
        yield me.pass_time(1.0 + moment / 2000)
        barrier = Barrier(me.client.session, "name", PARTIES)
        yield barrier.abort() if how == "abort" else barrier.reset()
        return True

    world = World(Schedule())
    world.add("end", ender)
    for number in range(PARTIES):
        world.add(f"p{number}", world.party(5.0, later=1.0 if number else 0.0))
    world.simulator.run_for(20)
    world.check_generations()
    # A party that comes after a reset waits for others, in vain.
    assert len({type(world.played[f"p{number}"].result) for number in range(PARTIES)}) == 1
    world.check_rest()


def test_a_server_without_data_passes_nobody() -> None:
    """When the server loses its data, those who waited do not pass with those who come later."""
    world = World(Schedule(times=[(2.0, restart())]))
    for number in range(4):
        world.add(f"p{number}", world.party(5.0, later=0.0 if number == 0 else 2.5))
    world.simulator.run_for(20)
    world.check_generations()
    assert isinstance(world.played["p0"].result, BrokenBarrierError)
    assert sorted(world.played[f"p{number}"].result for number in (1, 2, 3)) == [0, 1, 2]


@pytest.mark.parametrize("delay", [2.0, 4.0, 8.0])
def test_a_late_arrival_of_who_has_left(delay: float) -> None:
    """An arrival that the network delays until its party has left counts for nobody."""
    world = World(Schedule({("p0", 1): delay_request(delay)}))  # after its sleep
    world.add("p0", world.party(0.5))
    for number in (1, 2):
        world.add(f"p{number}", world.party(3.0, later=delay - 1))
    world.simulator.run_for(20)
    assert isinstance(world.played["p0"].error or world.played["p0"].result, InterlockError)
    for number in (1, 2):
        assert isinstance(world.played[f"p{number}"].result, BrokenBarrierError)
    world.check_generations()
    world.check_rest()


@pytest.mark.parametrize("seed", range(20))
def test_many_faults_at_random(seed: int) -> None:
    """Whatever befalls parties of many rounds, generations never mix, and all come to an end."""
    world = World(Schedule(rates=RATES), seed=seed)  # type: ignore[arg-type]
    for number in range(4):
        world.add(f"p{number}", world.party(2.0, later=number * 0.1, rounds=12))
    while world.simulator.running():
        world.simulator.run_for(1)
        assert world.simulator.now < 300, "somebody waits for ever"
    world.check_generations()
    world.check_rest()
