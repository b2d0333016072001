"""Semaphores in the simulator: every permit is accounted for, under any fault of any effect."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.every_fault import FAULTS, OPTIONS
from tests.support.simulator import Simulator
from tests.support.simulator.queue import PermitsExclude, PermitsInOrder
from tests.support.simulator.schedule import EFFECT_KINDS, Interrupted, Schedule

from interlock._core.model.effects import NEVER
from interlock._core.model.holds import HELD, Owner
from interlock._core.objects.leased_semaphore import LeasedSemaphore
from interlock._core.objects.semaphore import Semaphore
from interlock.errors import InterlockError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tests.support.simulator import Process, SimulatedClient

    from interlock._core.model.effects import Op
    from interlock._core.model.holds import Permit

    Work = Generator[Op[Any], Any, None]
    Program = Callable[..., Callable[[Process], Work]]

TOTAL = 3
ALL = "interlock_semaphore_total:{name}"
REST = 120.0
"""Seconds: longer than any latch or lease lives."""
TROUBLE = (InterlockError, Interrupted)
RATES = {**dict.fromkeys(EFFECT_KINDS, 0.03), "abandon": 0.0, "outage": 0.05, "lose messages": 0.05}


class Books:
    """What the processes of a run have of the plain semaphore, as far as they were told.

    Attributes:
        taken: permits that were taken and not given back.
        added: permits that were added for good.
        waits: seconds that the acquires of a `fleet` took.
        ended: when all had ended.
    """

    def __init__(self) -> None:
        self.taken = self.added = 0
        self.waits: list[float] = []
        self.ended = 0.0

    def user(self, *wants: int, timeout: float = NEVER) -> Callable[[Process], Work]:
        """Return a program that takes and gives back each of *wants* in turn."""

        def program(me: Process) -> Work:
            semaphore = Semaphore(me.client.session, "name")
            for number in wants:
                try:
                    if not (yield semaphore.acquire(number, me.client.clock() + timeout)):
                        continue
                except TROUBLE:
                    continue
                self.taken += number
                with suppress(*TROUBLE):
                    yield me.pass_time(0.05)
                yield from self._given(semaphore.release(number), number)

        return program

    def manager(self, me: Process) -> Work:
        """Drain, add, and release what need not exist."""
        semaphore = Semaphore(me.client.session, "name")
        try:
            drained = yield semaphore.drain_permits()
        except TROUBLE:
            pass
        else:
            self.taken += drained
        for number in (2, -1):
            try:
                yield semaphore.add_permits(number)
            except TROUBLE:
                continue
            self.taken -= number
            self.added += number
        yield from self._given(semaphore.release_if_exists(1), 1)

    def _given(self, release: Op[Any], number: int) -> Work:
        self.taken -= number
        try:
            yield release
        except ServerUnavailableError as error:
            # Only a release that the server refused is not carried through.
            if not error.sent and not error.transient:
                self.taken += number
        except TROUBLE:
            pass


def leaser(*wants: int, lease: float | None = None) -> Callable[[Process], Work]:
    """Return a program that takes and gives back permits with leases."""

    def program(me: Process) -> Work:
        session = me.client.session
        semaphore = LeasedSemaphore(session, "name")
        for number in wants:
            owner = Owner(me.name)
            try:
                permit: Permit | None = yield semaphore.acquire(
                    owner, number, NEVER, lease, lambda made, _: made
                )
                yield me.pass_time(0.05)
                assert permit is not None
                if permit.state is HELD:
                    yield semaphore.release_id(permit.ids[0]) if number == 1 else permit.release()
            except TROUBLE:
                continue

    return program


def _number(simulator: Simulator, key: str = "name") -> int:
    stored = simulator.network.dump().get(key)
    assert stored is not None
    assert isinstance(stored.value, bytes)
    return int(stored.value.partition(b" ")[0])


def _play(seed: int, programs: list[Callable[[Process], Work]], schedule: Schedule) -> Simulator:
    """Run *programs*, each in a client of its own, until all is at rest."""
    invariants = (PermitsInOrder(), PermitsExclude(TOTAL))
    simulator = Simulator(seed, schedule=schedule, invariants=invariants)
    home = simulator.client(**OPTIONS)
    assert simulator.network.run(_set_up(home)) == 1
    for number, program in enumerate(programs):
        simulator.spawn(simulator.client(**OPTIONS), program, f"p{number}")
    while simulator.running():
        simulator.run_for(1)
    simulator.heal()
    # A permit that was dropped at an error is renewed while that error's traceback refers to it. A
    # clean-up that is still under way may refer to the error.
    for _ in range(2):
        _ = gc.collect()
        simulator.run_for(REST)
    for client in [each for each in simulator.clients if not each.crashed]:
        assert len(client.cleanups) == 0
        assert client.session.waiters.channels() == []
    assert simulator.network.channels() == []
    return simulator


def _set_up(client: SimulatedClient) -> Any:
    return next(Semaphore(client.session, "name").try_set_permits(TOTAL))


def _crowd(books: Books) -> list[Callable[[Process], Work]]:
    return [
        books.user(1, 3, timeout=20),
        books.user(2, 1, timeout=9),
        books.user(1, timeout=0.08),
    ]


PROGRAMS: dict[str, Callable[[Books], list[Callable[[Process], Work]]]] = {
    "alone": lambda books: [books.user(1, 2)],
    "crowd": _crowd,
    "crowd-with-timeout": lambda books: _crowd(books)[::-1],
    "manager": lambda books: [books.manager, books.user(1, 1, timeout=2)],
}


@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_at_every_effect(program: str, fault: str) -> None:
    """With a fault at any effect of the first process, free and taken permits add up at rest."""
    recorded = _play(1, PROGRAMS[program](Books()), Schedule())
    effects = len(recorded.clients[1].processes[0].effects)
    assert effects > 2
    for place in range(effects):
        books = Books()
        schedule = Schedule({("p0", place): FAULTS[fault]})
        simulator = _play(1, PROGRAMS[program](books), schedule)
        assert _number(simulator) + books.taken == TOTAL, f"at effect {place}"
        assert _number(simulator, ALL) == TOTAL + books.added, f"at effect {place}"
        assert set(simulator.network.dump()) == {"name", ALL}, "every latch has expired"


@pytest.mark.parametrize("seed", range(40))
def test_many_faults_at_random(seed: int) -> None:
    """Under random faults, free and taken permits add up when all is at rest."""
    books = Books()
    programs = _crowd(books)
    programs += [books.manager, books.user(1, 1, 1, timeout=5)]
    simulator = _play(seed, programs, Schedule(rates=RATES))
    assert _number(simulator) + books.taken == TOTAL
    assert _number(simulator, ALL) == TOTAL + books.added
    assert set(simulator.network.dump()) == {"name", ALL}


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_at_every_effect_of_a_leased_one(fault: str) -> None:
    """Whichever effect a fault befalls, all permits with leases are back when all is at rest."""
    programs = [leaser(1, 3), leaser(2, 1), leaser(1, lease=0.5)]
    effects = len(_play(1, programs, Schedule()).clients[1].processes[0].effects)
    for place in range(effects):
        simulator = _play(1, programs, Schedule({("p0", place): FAULTS[fault]}))
        _look_through(simulator)
        assert _number(simulator) == TOTAL, f"at effect {place}"


@pytest.mark.parametrize("seed", range(40))
def test_permits_of_the_dead_come_back(seed: int) -> None:
    """Whatever clients die of, all permits with leases are back when all is at rest."""
    programs = [leaser(1, 3), leaser(2, 1, 1), leaser(1, 1, 2), leaser(3, lease=0.5)]
    simulator = _play(seed, programs, Schedule(rates={**RATES, "crash": 0.3, "pause": 0.2}))
    _look_through(simulator)
    assert _number(simulator) == TOTAL


def _look_through(simulator: Simulator) -> None:
    """Ask for the counts; this, like any question, takes back the expired permits."""
    session = simulator.client(**OPTIONS).session
    free, held = simulator.network.run(next(LeasedSemaphore(session, "name").counts()))
    assert (free, held) == (TOTAL, 0)


def fleet(
    books: Books, turns: int, wants: int = 1, work: float = 0.02
) -> Callable[[Process], Work]:
    """Return a program that takes and gives back *wants* permits, *turns* times."""

    def program(me: Process) -> Work:
        semaphore = Semaphore(me.client.session, "name")
        for _ in range(turns):
            began = me.client.now
            if (yield semaphore.acquire(wants, NEVER)) is not True:
                continue
            books.taken += wants
            books.waits.append(me.client.now - began)
            yield me.pass_time(work)
            books.taken -= wants
            yield iter(semaphore.release(wants))

    return program


def leased_fleet(
    books: Books, turns: int, wants: int = 1, work: float = 0.02
) -> Callable[[Process], Work]:
    """Return such a program as `fleet`, for permits with leases."""

    def program(me: Process) -> Work:
        session = me.client.session
        semaphore = LeasedSemaphore(session, "name")
        for _ in range(turns):
            began, owner = me.client.now, Owner(me.name)
            permit: Permit | None = yield semaphore.acquire(
                owner, wants, NEVER, None, lambda made, _: made
            )
            if permit is None:
                continue
            books.taken += wants
            books.waits.append(me.client.now - began)
            yield me.pass_time(work)
            books.taken -= wants
            yield iter(permit.release())
            del permit

    return program


FLEETS = pytest.mark.parametrize("fleet", [fleet, leased_fleet], ids=["plain", "leased"])


def _gather(
    seed: int,
    programs: list[Callable[[Process], Work]],
    books: Books,
    permits: int = 1,
    **faults: Any,
) -> Simulator:
    """Run *programs*, each in a client of its own, and look after the order of the queue."""
    invariants = (PermitsInOrder(), PermitsExclude(permits))
    simulator = Simulator(seed, schedule=Schedule(**faults), invariants=invariants)
    simulator.network.server.execute("SET", "name", str(permits))
    for number, program in enumerate(programs):
        simulator.spawn(simulator.client(poll_cap=2.0), program, f"p{number}")
    for _ in range(200):
        simulator.run_for(1)
        if not simulator.running():
            break
    assert not simulator.running(), "nobody waits for ever"
    books.ended = simulator.now
    simulator.heal()
    simulator.run_for(REST)
    assert _number(simulator) == permits
    assert simulator.network.channels() == []
    assert set(simulator.network.dump()) == {"name"}
    return simulator


@FLEETS
@pytest.mark.parametrize(("clients", "permits"), [(2, 1), (8, 1), (8, 4), (24, 4)])
def test_a_turn_costs_the_same_in_any_fleet(
    fleet: Program,
    clients: int,
    permits: int,
) -> None:
    """However many clients wait, a turn takes three commands and one message; all wait as long."""
    books = Books()
    turns = 12
    simulator = _gather(1, [fleet(books, turns)] * clients, books, permits)
    total = clients * turns
    commands = simulator.network.server.commands
    assert commands["EVAL"] <= 3.2 * total + 2 * clients
    assert commands["PUBLISH"] <= 1.1 * total
    assert max(books.waits) <= 2.5 * 0.03 * clients / permits


@FLEETS
@pytest.mark.parametrize("seed", range(12))
def test_a_fleet_with_frozen_clients_and_lost_messages(
    fleet: Program,
    seed: int,
) -> None:
    """Frozen clients, lost messages and broken subscriptions cost a fleet no permit."""
    books = Books()
    rates = {"pause": 0.3, "lose messages": 0.3, "deafen": 0.3}
    programs = [fleet(books, 12, 1 + number % 2) for number in range(6)]
    _ = _gather(seed, programs, books, 2, rates=rates)
    assert books.taken == 0
    assert len(books.waits) == 6 * 12


@pytest.mark.parametrize("seed", range(6))
def test_dead_clients_in_the_queue_delay_nobody(seed: int) -> None:
    """Clients that die while they stand in the queue are passed over; nobody has to look."""
    books = Books()
    simulator = Simulator(seed, invariants=(PermitsInOrder(),))
    simulator.network.server.execute("SET", "name", "0")
    clients = [simulator.client(poll_cap=60.0) for _ in range(6)]
    for number, client in enumerate(clients):
        _ = simulator.spawn(client, fleet(books, 1), f"p{number}")
        simulator.run_for(0.1)
    giver = simulator.client()
    for client in clients[:3]:
        client.crash()

    def give(me: Process) -> Work:
        yield iter(Semaphore(me.client.session, "name").release(1))

    _ = simulator.spawn(giver, give, "giver")
    simulator.run_for(1.0)
    assert len(books.waits) == 3
    assert _number(simulator) == 1


@FLEETS
@pytest.mark.parametrize("seed", range(2))
def test_who_wants_several_is_not_overtaken_for_ever(
    fleet: Program,
    seed: int,
) -> None:
    """Of a fleet that wants single permits all the time, one that wants all has its turn."""
    books, several = Books(), Books()
    programs = [fleet(books, 300, work=0.05)] * 6
    programs.append(fleet(several, 1, 4))
    _ = _gather(seed, programs, books, 4)
    assert books.ended > 22, "the others went on for longer"
    assert max(several.waits) < 20.5


@FLEETS
def test_who_is_told_when_to_look_may_die(fleet: Program) -> None:
    """Permits are kept for one that wants two. If the next behind it dies then, another one looks.

    That is the client that released, when they are not kept any more; polls would come later.
    """
    books, last = Books(), Books()
    simulator = Simulator(1, invariants=(PermitsInOrder(),))
    simulator.network.server.execute("SET", "name", "2")
    clients: list[SimulatedClient] = []
    holding = [fleet(books, 1, work=seconds) for seconds in (90, 18)]
    for program in (*holding, fleet(books, 1, 2), fleet(books, 1), fleet(last, 1)):
        clients.append(simulator.client(poll_cap=60.0))
        simulator.spawn(clients[-1], program)
        simulator.run_for(0.2)
    simulator.run_for(18.6 - simulator.now)
    assert len(books.waits) == 2
    assert _number(simulator) == 1, "it is kept"
    clients[3].crash()
    simulator.run_for(2)
    assert last.waits


@pytest.mark.parametrize("greedy", [1, 5])
@pytest.mark.parametrize("seed", range(2))
def test_who_wants_too_many_stops_nobody(seed: int, greedy: int) -> None:
    """Requests for more permits than there are delay the others by 2 s at a time."""
    books = Books()
    programs = [fleet(books, 100, work=0.05)] * 6
    simulator = Simulator(seed, invariants=(PermitsInOrder(),))
    simulator.network.server.execute("SET", "name", "2")
    for number, program in enumerate(programs):
        simulator.spawn(simulator.client(poll_cap=60.0), program, f"p{number}")

    def want_three(me: Process) -> Work:
        assert not (yield Semaphore(me.client.session, "name").acquire(3, me.client.clock() + 60))

    for number in range(greedy):
        simulator.spawn(simulator.client(poll_cap=60.0), want_three, f"greedy {number}")
        simulator.run_for(2)
    for _ in range(80):
        simulator.run_for(1)
        if not simulator.running():
            break
    assert len(books.waits) == 600
    assert max(books.waits) < 3
    assert _number(simulator) == 2


@pytest.mark.parametrize("seed", range(2))
def test_who_wants_several_behind_one_who_wants_too_many(seed: int) -> None:
    """One who wants all permits has them, though an earlier one wants more than all."""
    books, several = Books(), Books()
    simulator = Simulator(seed, invariants=(PermitsInOrder(),))
    simulator.network.server.execute("SET", "name", "4")

    def want_five(me: Process) -> Work:
        assert not (yield Semaphore(me.client.session, "name").acquire(5, me.client.clock() + 60))

    simulator.spawn(simulator.client(poll_cap=60.0), want_five, "greedy")
    simulator.run_for(0.5)
    programs = [fleet(books, 400, work=0.05)] * 6
    for number, program in enumerate([*programs, fleet(several, 1, 4)]):
        simulator.spawn(simulator.client(poll_cap=60.0), program, f"p{number}")
    for _ in range(35):
        simulator.run_for(1)
        if several.waits:
            break
    assert several.waits, "nothing was kept for it"
    assert len(books.waits) < 6 * 400, "the others still want some"


@pytest.mark.parametrize("seed", range(3))
def test_who_is_woken_at_its_deadline_keeps_nothing_from_others(seed: int) -> None:
    """A wake-up that meets the end of a wait is not lost for the other waiter of that client."""
    for step in range(80):
        books = Books()
        simulator = Simulator(seed, invariants=(PermitsInOrder(),))
        simulator.network.server.execute("SET", "name", "0")
        client = simulator.client(poll_cap=60.0)

        def front(me: Process) -> Work:
            semaphore = Semaphore(me.client.session, "name")
            if (yield semaphore.acquire(1, me.client.clock() + 0.3)):
                yield iter(semaphore.release(1))

        def give(me: Process, step: int = step) -> Work:
            yield me.pass_time(0.272 + step * 0.0001)
            yield iter(Semaphore(me.client.session, "name").release(1))

        for program in (front, fleet(books, 1)):
            _ = simulator.spawn(client, program)
            simulator.run_for(0.01)
        _ = simulator.spawn(simulator.client(), give)
        simulator.run_for(2.0)
        assert len(books.waits) == 1, f"released at step {step}"


@pytest.mark.parametrize("seed", range(2))
def test_newcomers_and_waiters_of_one_client(seed: int) -> None:
    """Several owners of each client come and go; none is forgotten, and nobody has to look."""
    books = Books()
    simulator = Simulator(seed, invariants=(PermitsInOrder(),))
    simulator.network.server.execute("SET", "name", "2")
    for _ in range(3):
        client = simulator.client(poll_cap=60.0)
        for number in range(3):
            _ = simulator.spawn(client, fleet(books, 40, work=0.001 * (number + 1)))
    simulator.run_for(20)
    assert len(books.waits) == 3 * 3 * 40
    assert max(books.waits) < 0.1
    assert _number(simulator) == 2
