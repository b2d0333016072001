"""A release makes a waiter of another client the holder of a permit, which starts without asking.

Each mistake in that is found by a simulation that passes on what is right.
"""

from __future__ import annotations

import gc
from typing import TYPE_CHECKING, Any

import pytest
from faultlab.mistakes import Call, Condition, Result, Value
from tests.support.mutations import Mutation, proofs
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


def turns() -> None:
    """Four clients take turns with two permits; nobody asks before it starts."""
    for seed in range(5):
        simulator = play(seed, [[user(12)]] * 4, 2)
        assert simulator.network.server.commands["EVAL"] < 160


def late_messages() -> None:
    """Messages come late and twice, while clients stand still."""
    for seed in range(8):
        times = [(0.0, schedule.delay_messages(60.0))]
        times += [(0.2 * number, schedule.pause(0.4)) for number in range(1, 20)]
        play(seed, [[user(20, 0.5)]] * 4, 1, times=times)


def siblings() -> None:
    """Two clients with two processes each come again and again."""
    for seed in range(5):
        play(seed, [[user(20), user(20)]] * 2, 1)


def crowds() -> None:
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


def unconfirmed() -> None:
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


def own_leases() -> None:
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


MISTAKES = [
    Mutation(
        "permit-is-given-under-another-id",
        "leased_semaphore_release",
        Call("zadd", "redis.call('zadd', $1, $2, claim_of(member, 1))", which=1),
        turns,
    ),
    Mutation(
        "permit-stays-free",
        "leased_semaphore_release",
        Call("decrby", "redis.call('exists', $1)"),
        turns,
    ),
    Mutation(
        "claim-that-there-was-is-taken-again",
        "leased_semaphore_release",
        Value("added", "wanted_by(member)", which=1),
        crowds,
    ),
    Mutation(
        "claim-is-believed-for-too-long",
        "model.holds:Hold.claim_end",
        Result("$0 + 3 * CLAIM"),
        unconfirmed,
    ),
    Mutation(
        "claim-counts-as-the-lease",
        "model.holds:Hold.start",
        Value("valid_until", "valid_until(now, self.lease)"),
        unconfirmed,
    ),
    Mutation(
        "who-asks-keeps-the-claim-only",
        "leased_semaphore_acquire",
        Condition("held wanted 1 tonumber now CLAIM", "false"),
        late_messages,
    ),
    Mutation(
        "confirmation-takes-what-is-gone",
        "leased_semaphore_renew",
        Condition("ends now", "$0 and ends > 0"),
        late_messages,
    ),
    Mutation(
        "claim-of-another-permit-is-believed",
        "queue.waiter:Claim.is_for",
        Call("endswith", "True"),
        siblings,
    ),
    Mutation(
        "claim-is-believed-whenever-it-is-heard-of",
        "model.holds:Hold.claim_end",
        Result("valid_until(now, CLAIM)"),
        late_messages,
    ),
    Mutation(
        "confirmation-does-not-count",
        "model.holds:Permit.extend_validity",
        Condition("self renewal None self asked_by", "self.renewal is not None"),
        own_leases,
    ),
]


test_simulation_passes_on_what_is_right, test_mistake_is_found = proofs(MISTAKES)


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
