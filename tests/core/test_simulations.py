"""Small simulations of the core, one for each rule: tools/must_die.py has the mistakes in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.simulator import Process, Schedule, Simulator, schedule

from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.model import names
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

OPTIONS = Options(lease=2.0, poll_cap=0.5, command_timeout=0.5, outage_timeout=2.0)


def hold_for(seconds: float, **options: Any) -> Callable[[Process], Generator[Any, Any, Any]]:
    """Return a program that acquires, holds, and releases."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        lock = me.lock("x")
        if (yield me.acquire(lock, **options)) is not None:
            yield me.pass_time(seconds)
            yield me.release(lock)

    return program


def simulate(*programs: Callable[[Process], Any], **faults: Any) -> None:
    """Run each program in a client of its own, under several seeds."""
    for seed in range(5):
        simulator = Simulator(seed, schedule=Schedule(**faults), steps=20_000)
        for number, program in enumerate(programs):
            simulator.spawn(simulator.client(OPTIONS), program, f"p{number}")
        simulator.run()


def test_contention() -> None:
    """Three clients want one lock."""
    simulate(*[hold_for(0.1)] * 3)


def test_crowd() -> None:
    """Four clients come again and again, beside some that only try."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        lock = me.lock("x")
        for _ in range(30):
            if (yield me.acquire(lock)) is not None:
                yield me.pass_time(0.05)
                yield me.release(lock)

    simulate(*[program] * 4)


def test_impatience() -> None:
    """A client gives up before its turn comes."""
    simulate(hold_for(1.0), hold_for(0.1, timeout=0.5), hold_for(0.1))


def test_long_hold() -> None:
    """A hold outlasts its lease many times; another client waits for it."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        lock = me.lock("x")
        hold = yield me.acquire(lock)
        yield me.pass_time(10.0)
        assert hold.valid(me.client.clock()), "not renewed"
        yield me.release(lock)

    simulate(program, hold_for(0.1))


def test_outage() -> None:
    """The server cannot be reached for longer than a lease while a lock is held."""
    simulate(hold_for(10.0), hold_for(0.1), times=[(3.0, schedule.outage(4.0))])


def test_neighbours() -> None:
    """Three processes of one client, and another client, want one lock; one gives up early."""
    for seed in range(5):
        simulator = Simulator(seed, steps=20_000)
        client = simulator.client(OPTIONS)
        simulator.spawn(client, hold_for(1.0))
        simulator.spawn(client, hold_for(0.1, timeout=0.3))
        simulator.spawn(client, hold_for(0.1))
        simulator.spawn(simulator.client(OPTIONS), hold_for(0.1))
        simulator.run()


def test_nested() -> None:
    """A lock is entered twice and left twice, while another client waits."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        lock = me.lock("x")
        for _ in range(2):
            yield me.acquire(lock)
            yield me.pass_time(0.1)
        for _ in range(2):
            yield me.release(lock)
            yield me.pass_time(0.1)

    simulate(program, hold_for(0.1))


def test_interrupted_acquire() -> None:
    """An acquire is interrupted when the server has granted it, and its owner goes on living."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        with pytest.raises(schedule.Interrupted):
            yield me.acquire(me.lock("x"))
        yield me.pass_time(0.2)
        assert (yield me.lock("x").status()).remaining is None, "left behind"

    simulate(program, effects={("p0", 0): schedule.interrupt("after")})


def test_late_release() -> None:
    """A release is late and repeated; its owner acquires anew before the first one arrives."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        lock = me.lock("x")
        for seconds in (0.0, 1.0):
            yield me.acquire(lock)
            yield me.pass_time(seconds)
            yield me.release(lock)

    simulate(program, effects={("p0", 2): schedule.delay_request(1.0)})


def test_late_grant() -> None:
    """The answer to an acquire takes longer than its lease."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        hold = yield me.acquire(me.lock("x"), lease=0.3)
        assert hold.valid(me.client.clock()), "over before it was given"
        yield me.pass_time(0.1)
        yield me.release(me.lock("x"))

    simulate(program, program, effects={("p0", 0): schedule.delay_reply(0.4)})


def living_on(
    program: Callable[[Process], Generator[Any, Any, Any]],
) -> Callable[[Process], Generator[Any, Any, Any]]:
    """Return *program* for a process that lives on after it.

    The holds of a process that has ended end only with their leases.
    """

    def longer(me: Process) -> Generator[Any, Any, Any]:
        yield from program(me)
        yield me.pass_time(20.0)

    return longer


def test_strays_of_a_hold() -> None:
    """Two tries of an acquire are executed after the third one's hold was released.

    The lease is long.
    """
    two = {("p0", effect): schedule.delay_request(2.0 + effect) for effect in (0, 2)}
    simulate(living_on(hold_for(0.1, lease=60.0)), effects=two)


def test_strays_in_vain() -> None:
    """A try of an acquire is executed when its owner has given up and the holder has gone."""
    late = {("p1", 0): schedule.delay_request(2.0)}
    program = living_on(hold_for(0.1, timeout=1.2, lease=60.0))
    simulate(hold_for(1.5), program, effects=late)


def test_lost_messages() -> None:
    """Every message of a release is lost."""
    long = hold_for(0.5, lease=30.0)
    simulate(long, long, times=[(0.0, schedule.lose_messages(60.0))])


def test_late_messages() -> None:
    """Messages come late and twice, while clients come again and again, and stand still."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        lock = me.lock("x")
        for _ in range(20):
            if (yield me.acquire(lock)) is not None:
                yield me.pass_time(0.05 * me.random.random())
                yield me.release(lock)

    for seed in range(8):
        times = [(0.0, schedule.delay_messages(60.0))]
        times += [(0.2 * number, schedule.pause(0.4)) for number in range(1, 20)]
        simulator = Simulator(seed, schedule=Schedule(times=times), steps=100_000)
        for _ in range(3):
            simulator.spawn(simulator.client(OPTIONS), program)
        simulator.run()


def test_late_requests() -> None:
    """Requests come late, also those that nobody waits for."""
    for seed in range(10):
        faults = Schedule(rates={"delay request": 0.3}, longest=1.0)
        simulator = Simulator(seed, schedule=faults, steps=100_000)
        for _ in range(3):
            client = simulator.client(OPTIONS)
            for _ in range(4):
                simulator.spawn(client, hold_for(0.01))
        simulator.run()


def test_siblings() -> None:
    """Two clients with two processes each come again and again."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        lock = me.lock("x")
        for _ in range(30):
            yield me.pass_time(0.02 * me.random.random())
            if (yield me.acquire(lock)) is not None:
                yield me.pass_time(0.01 * me.random.random())
                yield me.release(lock)

    for seed in range(5):
        simulator = Simulator(seed, steps=100_000)
        for _ in range(2):
            client = simulator.client(OPTIONS)
            simulator.spawn(client, program)
            simulator.spawn(client, program)
        simulator.run()


def test_unconfirmed() -> None:
    """The server cannot be reached from the moment on at which a client begins with its claim."""
    for seed in range(20):
        # A later fault tells the simulator that waiters may take as long as behind an outage.
        later = Schedule(times=[(60.0, schedule.outage(0.1))])
        simulator = Simulator(seed, schedule=later, steps=100_000)
        clients = [simulator.client(OPTIONS, command_timeout=0.2) for _ in range(3)]
        for client in clients:
            simulator.spawn(client, hold_for(1.0))
        while simulator.running() and not any(
            hold.asked_by for each in clients for hold in each.session.holds
        ):
            simulator.run_for(0.0005)
        simulator.strike(schedule.outage(0.5))
        simulator.run()


def test_tokens() -> None:
    """Three clients come again and again for a fenced lock."""
    simulate(*[fenced(10)] * 3)


def test_lost_counter() -> None:
    """An operator removes the counter of a fenced lock while clients wait for it."""
    removing = schedule.force_release(names.fence_token("x"))
    simulate(*[fenced(10)] * 3, times=[(0.31, removing), (0.52, removing)])


def test_two_kinds() -> None:
    """Clients want a fenced lock and a plain lock of one name."""

    def plain(me: Process) -> Generator[Any, Any, Any]:
        lock = me.lock("x")
        for _ in range(10):
            if (yield me.acquire(lock)) is not None:
                yield me.pass_time(0.02)
                yield me.release(lock)

    simulate(fenced(10), plain, fenced(10), plain)


def writing(rounds: int, *, reads: bool = False) -> Callable[[Process], Generator[Any, Any, Any]]:
    """Return a program that takes a write lock again and again, or the read lock beside it."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        lock = (ReadLock if reads else WriteLock)(me.client.session, "x")
        for _ in range(rounds):
            yield me.pass_time(0.01 * me.random.random())
            if (yield me.acquire(lock)) is not None:
                yield me.pass_time(0.02)
                yield me.release(lock)

    return program


def test_writers() -> None:
    """Three clients come again and again to write."""
    simulate(*[writing(10)] * 3)


def test_readers_and_writers() -> None:
    """Clients come again and again, some to read and some to write."""
    simulate(*[writing(10)] * 3, *[writing(10, reads=True)] * 2)


def fenced(rounds: int) -> Callable[[Process], Generator[Any, Any, Any]]:
    """Return a program that takes a fenced lock again and again."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        lock = FencedLock(me.client.session, "x")
        for _ in range(rounds):
            if (yield me.acquire(lock)) is not None:
                yield me.pass_time(0.02)
                yield me.release(lock)

    return program


def test_removed_key() -> None:
    """An operator removes the key of a lock that is held; its holder must hear of that."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        hold = yield me.acquire(me.lock("x"))
        yield me.pass_time(1.5)
        assert hold.lost(me.client.clock()), "nobody was told"

    simulate(program, times=[(0.1, schedule.force_release("x"))])
