"""The tests of the core can fail: each deliberate mistake in it is found by a named simulation.

A mistake names a function or a script, and what it does wrong. The changed function replaces the
right one for one test.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from faultlab.mistakes import Call, Condition, Result, Value
from tests.support.mutations import Mutation, proofs
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


def contention() -> None:
    """Three clients want one lock."""
    simulate(*[hold_for(0.1)] * 3)


def crowd() -> None:
    """Four clients come again and again, beside some that only try."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        lock = me.lock("x")
        for _ in range(30):
            if (yield me.acquire(lock)) is not None:
                yield me.pass_time(0.05)
                yield me.release(lock)

    simulate(*[program] * 4)


def impatience() -> None:
    """A client gives up before its turn comes."""
    simulate(hold_for(1.0), hold_for(0.1, timeout=0.5), hold_for(0.1))


def long_hold() -> None:
    """A hold outlasts its lease many times; another client waits for it."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        lock = me.lock("x")
        hold = yield me.acquire(lock)
        yield me.pass_time(10.0)
        assert hold.valid(me.client.clock()), "not renewed"
        yield me.release(lock)

    simulate(program, hold_for(0.1))


def outage() -> None:
    """The server cannot be reached for longer than a lease while a lock is held."""
    simulate(hold_for(10.0), hold_for(0.1), times=[(3.0, schedule.outage(4.0))])


def neighbours() -> None:
    """Three processes of one client, and another client, want one lock; one gives up early."""
    for seed in range(5):
        simulator = Simulator(seed, steps=20_000)
        client = simulator.client(OPTIONS)
        simulator.spawn(client, hold_for(1.0))
        simulator.spawn(client, hold_for(0.1, timeout=0.3))
        simulator.spawn(client, hold_for(0.1))
        simulator.spawn(simulator.client(OPTIONS), hold_for(0.1))
        simulator.run()


def nested() -> None:
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


def interrupted_acquire() -> None:
    """An acquire is interrupted when the server has granted it, and its owner goes on living."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        with pytest.raises(schedule.Interrupted):
            yield me.acquire(me.lock("x"))
        yield me.pass_time(0.2)
        assert (yield me.lock("x").status()).remaining is None, "left behind"

    simulate(program, effects={("p0", 0): schedule.interrupt("after")})


def late_release() -> None:
    """A release is late and repeated; its owner acquires anew before the first one arrives."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        lock = me.lock("x")
        for seconds in (0.0, 1.0):
            yield me.acquire(lock)
            yield me.pass_time(seconds)
            yield me.release(lock)

    simulate(program, effects={("p0", 2): schedule.delay_request(1.0)})


def late_grant() -> None:
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


def strays_of_a_hold() -> None:
    """Two tries of an acquire are executed after the third one's hold was released.

    The lease is long.
    """
    two = {("p0", effect): schedule.delay_request(2.0 + effect) for effect in (0, 2)}
    simulate(living_on(hold_for(0.1, lease=60.0)), effects=two)


def strays_in_vain() -> None:
    """A try of an acquire is executed when its owner has given up and the holder has gone."""
    late = {("p1", 0): schedule.delay_request(2.0)}
    program = living_on(hold_for(0.1, timeout=1.2, lease=60.0))
    simulate(hold_for(1.5), program, effects=late)


def lost_messages() -> None:
    """Every message of a release is lost."""
    long = hold_for(0.5, lease=30.0)
    simulate(long, long, times=[(0.0, schedule.lose_messages(60.0))])


def late_messages() -> None:
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


def late_requests() -> None:
    """Requests come late, also those that nobody waits for."""
    for seed in range(10):
        faults = Schedule(rates={"delay request": 0.3}, longest=1.0)
        simulator = Simulator(seed, schedule=faults, steps=100_000)
        for _ in range(3):
            client = simulator.client(OPTIONS)
            for _ in range(4):
                simulator.spawn(client, hold_for(0.01))
        simulator.run()


def siblings() -> None:
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


def unconfirmed() -> None:
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


def tokens() -> None:
    """Three clients come again and again for a fenced lock."""
    simulate(*[fenced(10)] * 3)


def lost_counter() -> None:
    """An operator removes the counter of a fenced lock while clients wait for it."""
    removing = schedule.force_release(names.fence_token("x"))
    simulate(*[fenced(10)] * 3, times=[(0.31, removing), (0.52, removing)])


def two_kinds() -> None:
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


def writers() -> None:
    """Three clients come again and again to write."""
    simulate(*[writing(10)] * 3)


def readers_and_writers() -> None:
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


def removed_key() -> None:
    """An operator removes the key of a lock that is held; its holder must hear of that."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        hold = yield me.acquire(me.lock("x"))
        yield me.pass_time(1.5)
        assert hold.lost(me.client.clock()), "nobody was told"

    simulate(program, times=[(0.1, schedule.force_release("x"))])


MUTATIONS = [
    Mutation(
        "acquire-takes-what-is-taken",
        "lock_acquire",
        Condition("ours free", "$0 and depth ~= '1'"),
        contention,
    ),
    Mutation(
        "acquire-sets-no-lease",
        "lock_acquire",
        Call("pexpire", "redis.call('persist', $1)"),
        contention,
    ),
    Mutation(
        "acquire-counts",
        "lock_acquire",
        Call("hset", "redis.call('hincrby', lock, holder, depth)", which=2),
        nested,
    ),
    Mutation(
        "free-lock-counts",
        "lock_acquire",
        Call("hset", "redis.call('hincrby', $1, $2, 2)", which=0),
        nested,
    ),
    Mutation(
        "release-wakes-nobody",
        "lock_release",
        Call("PUBLISH", "tonumber('1')"),
        contention,
    ),
    Mutation(
        "release-wakes-the-last",
        "lock_release",
        Call("zrange", "redis.pcall('zrange', queue, '-1', '-1', 'withscores')", which=2),
        crowd,
    ),
    Mutation(
        "lock-is-always-left-to-others",
        "lock_release",
        Value("period", "now and math.huge"),
        crowd,
    ),
    Mutation(
        "claim-is-anybodys",
        "lock_acquire",
        Value("claimed", "client and not free and not ours"),
        contention,
    ),
    Mutation(
        "who-gives-up-keeps-its-place",
        "queue.waiting:leave_queue",
        Condition("place None", "True"),
        impatience,
    ),
    Mutation(
        "both-hold-what-is-passed-locally",
        "lock_pass_locally",
        Call("hdel", "redis.call('hexists', $1, $2)"),
        neighbours,
    ),
    Mutation(
        "a-local-pass-sets-no-lease",
        "lock_pass_locally",
        Call("pexpire", "redis.call('persist', $1)"),
        neighbours,
    ),
    Mutation(
        "inner-release-frees",
        "lock_release",
        Condition("depth 0", "$0 and depth ~= '1'"),
        nested,
    ),
    Mutation(
        "renewal-keeps-others",
        "lock_renew",
        Call("hexists", "1"),
        removed_key,
    ),
    Mutation(
        "watchdog-never-renews",
        "upkeep.watchdog:Watchdog._sort",
        Condition("hold renew_at now", "hold.renew_at <= now - 60"),
        long_hold,
    ),
    Mutation(
        "watchdog-counts-from-the-answer",
        "upkeep.watchdog:Watchdog._note",
        Call("extend_validity", "hold.extend_validity($1 + 5, $2)"),
        outage,
    ),
    Mutation(
        "loss-is-ignored",
        "upkeep.watchdog:Watchdog._note",
        Condition("hold state HELD", "False"),
        removed_key,
    ),
    Mutation(
        "acquire-is-not-undone",
        "locks.lock_base:undo_acquire",
        Call("bring_down", "()"),
        interrupted_acquire,
    ),
    Mutation(
        "late-grants-are-forgotten",
        "locks.lock_base:end_late_grants",
        Condition("hold unanswered", "$0 > 2"),
        strays_of_a_hold,
    ),
    Mutation(
        "late-grants-in-vain-are-forgotten",
        "locks.lock_base:undo_acquire",
        Call("late_grants", "hold.offered"),
        strays_in_vain,
    ),
    Mutation(
        "one-stray-is-all",
        "upkeep.cleanup:CleanupQueue.carry",
        Value("late", "0 if reply else entry.late"),
        strays_of_a_hold,
    ),
    Mutation(
        "late-grant-counts",
        "model.holds:Hold.grant",
        Condition("now until", "now >= until + 9"),
        late_grant,
    ),
    Mutation(
        "late-grant-is-believed",
        "model.holds:Hold.grant",
        Value("valid_until", "$0 - sent_at + now"),
        late_grant,
    ),
    Mutation(
        "number-is-used-again",
        "locks.lock_base:Release.finish",
        Condition("depth 0 call unknown hold unanswered", "depth < 0"),
        late_release,
    ),
    Mutation(
        "front-keeps-its-place",
        "queue.waiters:Waiters.leave",
        Value("front", "False"),
        neighbours,
    ),
    Mutation(
        "nobody-looks-again",
        "upkeep.session:Session.poll_interval",
        Result("$0 * 60"),
        lost_messages,
    ),
    Mutation(
        "message-is-not-acted-on",
        "queue.waiting:wait_in_queue",
        Value("told", "claim"),
        siblings,
    ),
    Mutation(
        "claim-is-believed-whenever-it-is-heard-of",
        "model.holds:Hold.claim_end",
        Result("valid_until(now, CLAIM)"),
        late_messages,
    ),
    Mutation(
        "claim-is-believed-for-too-long",
        "model.holds:Hold.claim_end",
        Result("$0 + 3 * CLAIM"),
        unconfirmed,
    ),
    Mutation(
        "claim-of-an-earlier-wait-is-believed",
        "model.holds:Hold.claim_end",
        Condition("passed 0", "False"),
        late_messages,
    ),
    Mutation(
        "claim-of-another-number-is-believed",
        "queue.waiter:Claim.is_for",
        Call("endswith", "True"),
        siblings,
    ),
    Mutation(
        "claim-counts-as-the-lease",
        "model.holds:Hold.start",
        Value("valid_until", "valid_until(now, self.lease)"),
        unconfirmed,
    ),
    Mutation(
        "confirmation-takes-what-is-free",
        "lock_renew",
        Call("hexists", "(redis.call('hset', $1, $2, '1') >= 0 and 1)"),
        late_requests,
    ),
    Mutation(
        "claim-is-not-written",
        "lock_release",
        Call("hset", "redis.call('hset', $1, string.match($2, '^[^:]*') .. ':0', $3)", which=2),
        contention,
    ),
    Mutation(
        "fenced-lock-is-given-with-the-last-token",
        "fenced_lock_release",
        Call("incrby", "redis.call('get', $1)"),
        tokens,
    ),
    Mutation(
        "plain-lock-is-given-to-who-needs-a-token",
        "lock_release",
        Value("news", "''", which=0),
        two_kinds,
    ),
    Mutation(
        "writer-is-given-a-lock-that-others-find-free",
        "write_lock_release",
        Call("pexpire", "redis.call('pexpire', $1, 1)", which=1),
        writers,
    ),
    Mutation(
        "writer-is-given-a-claim-of-its-client",
        "write_lock_release",
        Call(
            "hset",
            "redis.call('hset', lock, 'mode', 'write', string.match(field, '^[^:]*')"
            " .. ':0:write', '1')",
            which=2,
        ),
        writers,
    ),
    Mutation(
        "writer-is-given-a-lock-to-read",
        "read_lock_release",
        Call("hset", "redis.call('hset', lock, 'mode', 'read', field, '1')", which=1),
        readers_and_writers,
    ),
    Mutation(
        "last-reader-stays-when-the-lock-is-given-away",
        "read_lock_release",
        Call("hdel", "redis.call('hexists', $1, $2)", which=2),
        readers_and_writers,
    ),
    Mutation(
        "small-token-is-believed",
        "locks.fenced_lock:FencedLock._believes",
        Result("True"),
        lost_counter,
    ),
]


test_simulation_passes_on_what_is_right, test_mistake_is_found = proofs(MUTATIONS)
