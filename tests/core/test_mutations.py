"""The tests of the core can fail: each deliberate mistake in it is found by a named simulation.

A mistake is a change of the source text of a module or of a script. The changed function replaces
the right one for one test.
"""

from __future__ import annotations

import importlib
import inspect
import textwrap
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.scripts import TEXTS
from tests.support.simulator import Process, Schedule, Simulator, StepBudgetError, schedule

from interlock._core.locks import lock, lock_base
from interlock._core.model import holds
from interlock._core.model.effects import Script
from interlock._core.queue import waiters, waiting
from interlock._core.scripts import lock as scripts
from interlock._core.scripts.source import MESSAGES, sent
from interlock._core.upkeep import cleanup, session, watchdog
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from interlock._core.scripts.script import Variants

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


def removed_key() -> None:
    """An operator removes the key of a lock that is held; its holder must hear of that."""

    def program(me: Process) -> Generator[Any, Any, Any]:
        hold = yield me.acquire(me.lock("x"))
        yield me.pass_time(1.5)
        assert hold.lost(me.client.clock()), "nobody was told"

    simulate(program, times=[(0.1, schedule.force_release("x"))])


@dataclass(frozen=True)
class Mutation:
    """A mistake, and what finds it.

    Attributes:
        name: for the test's id.
        where: a function, or the name of a script.
        right: what the source says.
        wrong: what the mistake says.
        found_by: the simulation.
    """

    name: str
    where: Any
    right: str
    wrong: str
    found_by: Callable[[], None]


MUTATIONS = [
    Mutation(
        "acquire-takes-what-is-taken",
        "lock_acquire",
        "if not ours and not free then",
        "if not ours and not free and depth ~= '1' then",
        contention,
    ),
    Mutation(
        "acquire-sets-no-lease",
        "lock_acquire",
        "redis.call('pexpire', lock, lease)\n  return nil",
        "redis.call('persist', lock)\n  return nil",
        contention,
    ),
    Mutation(
        "acquire-counts",
        "lock_acquire",
        "redis.call('hset', lock, holder, depth)\nif free",
        "redis.call('hincrby', lock, holder, depth)\nif free",
        nested,
    ),
    Mutation(
        "free-lock-counts",
        "lock_acquire",
        "redis.call('hset', lock, holder, depth)\n  redis",
        "redis.call('hincrby', lock, holder, 2)\n  redis",
        nested,
    ),
    Mutation(
        "release-wakes-nobody",
        "lock_release",
        "redis.pcall(PUBLISH, wake, '0')",
        "1",
        contention,
    ),
    Mutation(
        "release-wakes-the-last",
        "lock_release",
        "redis.pcall('zrange', queue, '0', '0', 'withscores')",
        "redis.pcall('zrange', queue, '-1', '-1', 'withscores')",
        crowd,
    ),
    Mutation(
        "lock-is-always-left-to-others",
        "lock_release",
        "math.floor(time[1] / 2)",
        "math.huge",
        crowd,
    ),
    Mutation(
        "claim-is-anybodys",
        "lock_acquire",
        "redis.pcall('hdel', lock, client .. ':0') == 1",
        "redis.call('del', lock) == 1",
        contention,
    ),
    Mutation(
        "who-gives-up-keeps-its-place",
        waiting.leave_queue,
        "if place is None:",
        "if True:",
        impatience,
    ),
    Mutation(
        "both-hold-what-is-handed-over",
        "lock_hand_over",
        "redis.call('hdel', lock, holder) == 0",
        "redis.call('hexists', lock, holder) == 0",
        neighbours,
    ),
    Mutation(
        "hand-over-sets-no-lease",
        "lock_hand_over",
        "redis.call('pexpire', lock, lease)\nreturn 1",
        "redis.call('persist', lock)\nreturn 1",
        neighbours,
    ),
    Mutation(
        "inner-release-frees",
        "lock_release",
        "elseif depth ~= '0' then",
        "elseif depth ~= '0' and depth ~= '1' then",
        nested,
    ),
    Mutation(
        "renewal-keeps-others",
        "lock_renew",
        "== 1 and 1 or 0",
        "and 1 or 0",
        removed_key,
    ),
    Mutation(
        "watchdog-never-renews",
        watchdog.Watchdog._sort,
        "elif hold.renew_at <= now:",
        "elif hold.renew_at <= now - 60:",
        long_hold,
    ),
    Mutation(
        "watchdog-counts-from-the-answer",
        watchdog.Watchdog._note,
        "hold.extend_validity(sent_at, lease)",
        "hold.extend_validity(sent_at + 5, lease)",
        outage,
    ),
    Mutation(
        "loss-is-ignored",
        watchdog.Watchdog._note,
        "elif hold.state is State.HELD:",
        "elif hold.state is State.PENDING:",
        removed_key,
    ),
    Mutation(
        "acquire-is-not-undone",
        lock_base.undo_acquire,
        "if not (late or granted):",
        "if late or granted:",
        interrupted_acquire,
    ),
    Mutation(
        "late-grants-are-forgotten",
        lock_base.end_late_grants,
        "if hold.unanswered:",
        "if hold.unanswered > 2:",
        strays_of_a_hold,
    ),
    Mutation(
        "late-grants-in-vain-are-forgotten",
        lock_base.undo_acquire,
        "hold.late_grants()",
        "hold.offered",
        strays_in_vain,
    ),
    Mutation(
        "one-stray-is-all",
        cleanup.CleanupQueue.carry,
        "entry.late - bool(reply)",
        "entry.late * (not reply)",
        strays_of_a_hold,
    ),
    Mutation(
        "late-grant-counts",
        holds.Hold.grant,
        "if now >= until:",
        "if now >= until + 9:",
        late_grant,
    ),
    Mutation(
        "late-grant-is-believed",
        holds.Hold.grant,
        "until = self.valid_until = sent_at +",
        "until = self.valid_until = now +",
        late_grant,
    ),
    Mutation(
        "number-is-used-again",
        lock_base.Release.finish,
        "if depth == 0 and (call.unknown or hold.unanswered):",
        "if depth < 0:",
        late_release,
    ),
    Mutation(
        "front-keeps-its-place",
        waiters.Waiters.leave,
        "successor.front = True",
        "successor.front = False",
        neighbours,
    ),
    Mutation(
        "nobody-looks-again",
        session.Session.poll_interval,
        "return cap * (0.75 + self.random() / 4)",
        "return cap * (60 + self.random() / 4)",
        lost_messages,
    ),
    Mutation(
        "message-is-not-acted-on",
        waiting.wait_in_queue,
        "(waiter.take() or session.clock() >= look_at)",
        "(session.clock() >= look_at)",
        contention,
    ),
]


def mutate(mutation: Mutation, patch: pytest.MonkeyPatch) -> None:
    """Put the mistake in the place of what is right."""
    if isinstance(mutation.where, str):
        name = f"_{mutation.where.upper()}"
        script: Script[Any] | Variants[Any] = getattr(scripts, name)
        source = TEXTS[mutation.where]
        assert source.count(mutation.right) == 1
        wrong = source.replace(mutation.right, mutation.wrong)
        if isinstance(script, Script):
            mistaken: Any = Script(script.name, sent(wrong), script.decode)
        else:
            decode = script["PUBLISH"].decode
            mistaken = {p: Script(script.name, sent(wrong, p), decode) for p in MESSAGES}
        patch.setattr(scripts, name, mistaken)
        return
    module = importlib.import_module(mutation.where.__module__)
    source = textwrap.dedent(inspect.getsource(mutation.where))
    assert source.count(mutation.right) == 1
    names: dict[str, Any] = {}
    future = "from __future__ import annotations\n"
    exec(future + source.replace(mutation.right, mutation.wrong), vars(module).copy(), names)
    *path, name = mutation.where.__qualname__.split(".")
    holder = getattr(module, path[0]) if path else module
    patch.setattr(holder, name, names[name])
    for user in (lock, lock_base):
        if getattr(user, name, None) is mutation.where:
            patch.setattr(user, name, names[name])


FINDINGS = list(dict.fromkeys(mutation.found_by for mutation in MUTATIONS))


@pytest.mark.parametrize("find", FINDINGS, ids=lambda find: find.__name__)
def test_simulation_passes_on_what_is_right(find: Callable[[], None]) -> None:
    """The simulations that find mistakes find none in the core as it is."""
    find()


@pytest.mark.parametrize("mutation", MUTATIONS, ids=lambda mutation: mutation.name)
def test_mistake_is_found(mutation: Mutation, monkeypatch: pytest.MonkeyPatch) -> None:
    """A simulation fails when the core makes the mistake."""
    mutate(mutation, monkeypatch)

    with pytest.raises((AssertionError, StepBudgetError)):
        mutation.found_by()
