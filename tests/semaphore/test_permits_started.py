"""A release makes a waiter of another client the holder of a permit, which starts without asking.

tools/must_die.py has the mistakes in that, which these simulations find.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.simulator import Schedule, Simulator, schedule
from tests.support.simulator.queue import PermitsExclude, PermitsInOrder
from tests.support.simulator.schedule import EFFECT_KINDS, Interrupted

from interlock._core.model.effects import NEVER
from interlock._core.model.holds import HELD, Owner
from interlock._core.objects.leased_semaphore import LeasedSemaphore
from interlock.errors import InterlockError
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tests.support.simulator import Process

    Work = Generator[Any, Any, None]

OPTIONS = Options(lease=2.0, poll_cap=0.5, command_timeout=0.5, outage_timeout=2.0)
TROUBLE = (InterlockError, Interrupted)


def user(
    rounds: int, work: float = 0.02, *, timeout: float = NEVER, lease: float | None = None
) -> Callable[[Process], Work]:
    """Return a program that takes a permit and gives it back, again and again."""

    def program(me: Process) -> Work:
        semaphore = LeasedSemaphore(me.client.session, "name")
        for _ in range(rounds):
            owner = Owner(me.name)  # it lives as long as the permit, which is renewed for it
            try:
                yield me.pass_time(work * me.random.random())
                permit: Any = yield semaphore.acquire(
                    owner, 1, me.client.clock() + timeout, lease, lambda made, _: made
                )
                if permit is not None:
                    yield me.pass_time(work * me.random.random())
                    if permit.state is HELD:
                        yield iter(permit.release())
            except TROUBLE:
                continue

    return program


def play(
    seed: int,
    programs: list[list[Callable[[Process], Work]]],
    total: int,
    *,
    ends: bool = False,
    **faults: Any,
) -> Simulator:
    """Run the programs of each client, and look whether more permits are valid than there are.

    *ends*: the semaphore ends by itself, so clients ask for what they were given.
    """
    invariants = (PermitsInOrder(), PermitsExclude(total))
    simulator = Simulator(seed, schedule=Schedule(**faults), invariants=invariants, steps=200_000)
    simulator.network.server.execute("SET", "name", str(total))
    if ends:
        simulator.network.server.execute("PEXPIRE", "name", "1000000")
    for number, several in enumerate(programs):
        client = simulator.client(OPTIONS)
        for program in several:
            simulator.spawn(client, program, f"p{number}")
    for _ in range(120):
        simulator.run_for(1)
        if not simulator.running():
            break
    # A permit that was dropped at an error is renewed while that error's traceback refers to it.
    simulator.heal()
    for _ in range(2):
        _ = gc.collect()
        simulator.run_for(20)
    looking = LeasedSemaphore(simulator.client(OPTIONS).session, "name").counts()
    assert simulator.network.run(next(looking)) == [total, 0]
    return simulator


def test_turns() -> None:
    """Four clients take turns with two permits; nobody asks before it starts."""
    for seed in range(5):
        simulator = play(seed, [[user(12)]] * 4, 2)
        assert simulator.network.server.commands["EVAL"] < 160


def test_late_messages() -> None:
    """Messages come late and twice, while clients stand still."""
    for seed in range(8):
        times = [(0.0, schedule.delay_messages(60.0))]
        times += [(0.2 * number, schedule.pause(0.4)) for number in range(1, 20)]
        play(seed, [[user(20, 0.5)]] * 4, 1, times=times)


def test_siblings() -> None:
    """Two clients with two processes each come again and again."""
    for seed in range(5):
        play(seed, [[user(20), user(20)]] * 2, 1)


def test_crowds() -> None:
    """Clients with four processes each, which often come again at once; no permit melts away."""

    def program(me: Process) -> Work:
        semaphore = LeasedSemaphore(me.client.session, "name")
        for _ in range(15):
            owner = Owner(me.name)
            permit: Any = yield semaphore.acquire(owner, 1, NEVER, None, lambda made, _: made)
            yield me.pass_time(me.random.choice((0.0, 0.0005, 0.01)))
            yield iter(permit.release())
            yield me.pass_time(me.random.choice((0.0, 0.0005, 0.01)))

    for seed in range(4):
        play(seed, [[program] * 4] * 3, 3, ends=True)


def test_unconfirmed() -> None:
    """The server cannot be reached from the moment on at which a client begins with its claim."""
    for seed in range(20):
        later = Schedule(times=[(60.0, schedule.outage(0.1))])
        simulator = Simulator(seed, schedule=later, invariants=(PermitsExclude(1),), steps=100_000)
        simulator.network.server.execute("SET", "name", "1")
        clients = [simulator.client(OPTIONS, command_timeout=0.2) for _ in range(3)]
        for client in clients:
            simulator.spawn(client, user(1, 1.0))
        while simulator.running() and not any(
            hold.asked_by for each in clients for hold in each.session.holds
        ):
            simulator.run_for(0.0005)
        simulator.strike(schedule.outage(0.5))
        for _ in range(40):
            simulator.run_for(0.1)


def test_own_leases() -> None:
    """A permit with a lease of its own that began with a claim is valid for that lease."""

    def program(me: Process) -> Work:
        semaphore = LeasedSemaphore(me.client.session, "name")
        owner = Owner(me.name)
        permit: Any = yield semaphore.acquire(owner, 1, NEVER, 5.0, lambda made, _: made)
        yield me.pass_time(1.0)
        assert permit.valid(me.client.clock()), "over with its claim"
        yield iter(permit.release())

    for seed in range(3):
        play(seed, [[program]] * 3, 1)


@pytest.mark.parametrize("seed", range(30))
def test_any_fault_at_random(seed: int) -> None:
    """Whatever happens to clients, messages and requests, no permit has two holders."""
    rates = {
        **dict.fromkeys(EFFECT_KINDS, 0.02),
        **dict.fromkeys(("pause", "outage", "deafen", "lose messages", "delay messages"), 0.2),
        "abandon": 0.0,
        "crash": 0.05,
    }
    programs = [[user(10)], [user(10), user(6, timeout=0.3)], [user(10)], [user(6, lease=1.5)]]
    _ = play(seed, programs, 1 + seed % 2, rates=rates)
