"""The read/write lock in the simulator: random programs that come down and try to go up.

Faults of all kinds happen to them.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.model.redis_model import RedisModel
from tests.support.scripts import run_script
from tests.support.simulator import Simulator
from tests.support.simulator.schedule import Interrupted, Schedule, crash, lose_messages, pause
from tests.support.simulator.workload import PROFILES

from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.scripts import read_write_lock as scripts
from interlock.errors import HoldLostError, ServerUnavailableError, UpgradeError
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Generator

    from tests.support.simulator import Process

    from interlock._core.locks.lock_base import LockBase
    from interlock._core.model.effects import Op

    Work = Generator[Op[Any], Any, None]

TROUBLE = (HoldLostError, ServerUnavailableError, Interrupted)
OPTIONS = Options(lease=2.0, poll_cap=0.5, command_timeout=0.5, outage_timeout=2.0, renew_batch=3)
TRIES = 5


def visitor(me: Process) -> Work:
    """Read, write, and write first and then read, over and over."""
    read, write = ReadLock(me.client.session, "name"), WriteLock(me.client.session, "name")
    for _ in range(5):
        yield me.pass_time(me.random.random() ** 3)
        plan: list[LockBase] = me.random.choice(
            ([read], [read, read], [write], [write, read], [write, read, write], [write, write])
        )
        for lock in plan:
            yield from _enter(me, lock)
        if me.holds(read) and not me.holds(write):
            yield from _goes_not_up(me, write)
        yield me.pass_time(me.random.random() ** 4)
        # Coming down means giving the write lock back first.
        for lock in sorted(plan, key=lambda lock: lock is read):
            yield from _leave(me, lock)


def _enter(me: Process, lock: LockBase) -> Work:
    timeout = me.random.choice((None, 0.0, 0.3, 1.5))
    lease = me.random.choice((None, None, 0.2, 1.0))
    try:
        yield me.acquire(lock, timeout, lease=lease)
    except (*TROUBLE, UpgradeError):
        return


def _goes_not_up(me: Process, write: LockBase) -> Work:
    read = me.client.session.holds.get((write.key, 0), me.owner)
    assert read is not None
    if not read.valid(me.client.clock()):
        return
    sent = len(me.effects)
    with pytest.raises(UpgradeError):
        yield me.acquire(write, None)
    assert len(me.effects) == sent, "nothing was asked"


def _leave(me: Process, lock: LockBase) -> Work:
    for _ in range(TRIES):
        if not me.holds(lock):
            return
        try:
            yield me.release(lock)
        except HoldLostError:
            return
        except (ServerUnavailableError, Interrupted):
            continue
        return


@pytest.mark.parametrize("ended", [True, False])
@pytest.mark.parametrize("left", range(1, 31))
def test_who_leaves_frees_nobody_who_has_a_moment_left(left: int, ended: bool) -> None:
    """A reader whose lease ends in *left* milliseconds has them to the last one.

    It makes no difference if another reader leaves meanwhile, even one whose own lease is over.
    """
    now = 0.0
    model = RedisModel(now=lambda: now)

    def evaluate(text: str, keys: int, *words: Any) -> object:
        return model.eval(text, words[:keys], words[keys:])

    run = partial(run_script, evaluate)

    run(scripts.read_lock_acquire("name", "{name}:", 0.2 if ended else 0.3, "a:1", 1, ""))
    now = 0.1
    run(scripts.read_lock_acquire("name", "{name}:", 0.2, "b:1", 1, ""))
    now = 0.3 - left / 1000
    assert run(scripts.read_lock_release("name", "{name}:", "a:1", 0, 1, "PUBLISH", "c:x")) == 1
    assert run(scripts.write_lock_acquire("name", 10, "c:1:write", 1)) == left


def test_only_the_first_entry_of_a_reader_is_renewed() -> None:
    """A renewal prolongs the entry that is removed last; the others end, and the reader lives."""
    now = 0.0
    model = RedisModel(now=lambda: now)

    def evaluate(text: str, keys: int, *words: Any) -> object:
        return model.eval(text, words[:keys], words[keys:])

    run = partial(run_script, evaluate)
    run(scripts.read_lock_acquire("name", "{name}:", 0.2, "a:1", 1, ""))
    run(scripts.read_lock_acquire("name", "{name}:", 0.2, "a:1", 2, ""))
    assert run(scripts.read_lock_renew(["name", "other"], 10, ["a:1", "b:1"])) == [1, 0]
    now = 1.0
    assert model.execute("EXISTS", "{name}:a:1:rwlock_timeout:2") == 0
    assert run(scripts.write_lock_acquire("name", 10, "c:1:write", 1)) == 9_000
    assert run(scripts.read_lock_release("name", "{name}:", "a:1", 1, 2, "PUBLISH", "c:x")) == 1
    assert run(scripts.write_lock_acquire("name", 10, "c:1:write", 1)) == 9_000


def test_an_entry_touches_the_first_and_no_other() -> None:
    """However deep a reader is, an entry costs as much, and the reader lives as long as it says."""
    now = 0.0
    model = RedisModel(now=lambda: now)

    def evaluate(text: str, keys: int, *words: Any) -> object:
        return model.eval(text, words[:keys], words[keys:])

    run = partial(run_script, evaluate)
    for depth, lease in ((1, 0.2), (2, 0.2), (3, 10)):
        entering = scripts.read_lock_acquire("name", "{name}:", lease, "a:1", depth, "")
        assert len(entering.keys) == min(depth, 2) + 1
        run(entering)
    now = 1.0
    entries = [f"{{name}}:a:1:rwlock_timeout:{number}" for number in (1, 2, 3)]
    assert [model.execute("EXISTS", entry) for entry in entries] == [1, 0, 1]
    for depth in (2, 1):
        assert run(scripts.write_lock_acquire("name", 10, "c:1:write", 1)) == 9_000
        release = scripts.read_lock_release(
            "name", "{name}:", "a:1", depth, depth + 1, "PUBLISH", "c:x"
        )
        assert run(release) == 1
    assert run(scripts.write_lock_acquire("name", 10, "c:1:write", 1)) == 9_000


@pytest.mark.parametrize("leaver", ["reader", "writer"])
def test_who_has_no_whole_millisecond_left_keeps_nobody_waiting(leaver: str) -> None:
    """The lock does not outlast a last reader with less than a millisecond left.

    The server reports none of the time that is left to that reader.
    """
    now = 0.0
    model = RedisModel(now=lambda: now)

    def evaluate(text: str, keys: int, *words: Any) -> object:
        return model.eval(text, words[:keys], words[keys:])

    run = partial(run_script, evaluate)

    if leaver == "writer":
        run(scripts.write_lock_acquire("name", 20, "b:1:write", 1))
        run(scripts.read_lock_acquire("name", "{name}:", 0.2, "b:1", 1, "b:1:write"))
    else:
        run(scripts.read_lock_acquire("name", "{name}:", 20, "a:1", 1, ""))
        run(scripts.read_lock_acquire("name", "{name}:", 0.2, "b:1", 1, ""))
    now = 0.2  # the server removes it a millisecond later
    if leaver == "writer":
        assert run(scripts.write_lock_release("name", "b:1:write", 0, "PUBLISH", "c:x"))
    else:
        assert run(scripts.read_lock_release("name", "{name}:", "a:1", 0, 1, "PUBLISH", "c:x"))
    assert model.execute("PTTL", "name") in (0, 1)


@pytest.mark.parametrize("seed", range(160))
def test_random_programs_under_random_faults(seed: int) -> None:
    """Under random faults no writer shares the lock, and nothing is left at rest.

    Messages are lost, late and doubled; there are crashes, pauses and outages.
    """
    simulator = Simulator(seed, schedule=PROFILES[seed % len(PROFILES)])
    for _ in range(simulator.random.randint(1, 3)):
        client = simulator.client(OPTIONS)
        for _ in range(simulator.random.randint(1, 3)):
            simulator.spawn(client, visitor)
    simulator.run()


@pytest.mark.parametrize("writing", [0.08, 0.3], ids=["briefly", "long"])
def test_who_comes_down_never_waits_for_itself(writing: float) -> None:
    """A writer takes the read lock at once, though readers of its client queue for it.

    When it comes down, it lets all of them in at once.
    """
    for seed in range(40):
        simulator = Simulator(seed)
        client = simulator.client(OPTIONS)
        entered: list[float] = []

        def writer(me: Process, entered: list[float] = entered) -> Work:
            session = me.client.session
            read, write = ReadLock(session, "name"), WriteLock(session, "name")
            yield me.acquire(write)
            yield me.pass_time(writing)
            began = me.client.clock()
            yield me.acquire(read)
            assert me.client.clock() - began < 0.1
            yield me.release(write)
            released = me.client.clock()
            yield me.pass_time(0.3)
            assert len(entered) == 3
            assert max(entered) - released < 0.05
            yield me.release(read)

        def reader(me: Process, entered: list[float] = entered) -> Work:
            read = ReadLock(me.client.session, "name")
            yield me.pass_time(0.05)
            yield me.acquire(read)
            entered.append(me.client.clock())
            yield me.pass_time(0.5)
            yield me.release(read)

        simulator.spawn(client, writer)
        for _ in range(3):
            simulator.spawn(client, reader)
        simulator.run()


HOT = OPTIONS.replace(poll_cap=5.0, lease=2.0)
TROUBLES = [
    Schedule(),
    Schedule(times=[(0.15, crash("b")), (0.3, pause(1.0, "c")), (1.8, lose_messages(0.3))]),
    Schedule(rates={"crash": 0.1, "pause": 0.3, "deafen": 0.2, "lose messages": 0.3}),
]


@pytest.mark.parametrize("readers", [0, 2])
@pytest.mark.parametrize("trouble", range(len(TROUBLES)))
def test_writers_of_many_clients_take_turns(trouble: int, readers: int) -> None:
    """Nobody in the queue is overtaken without bound; without faults all get equal turns."""
    for seed in range(2):
        simulator = Simulator(seed, schedule=TROUBLES[trouble])
        turns: Counter[str] = Counter()

        def write(me: Process, turns: Counter[str] = turns) -> Work:
            yield from _again_and_again(me, WriteLock(me.client.session, "name"), turns)

        def read(me: Process, turns: Counter[str] = turns) -> Work:
            yield from _again_and_again(me, ReadLock(me.client.session, "name"), turns)

        for _ in range(4):
            simulator.spawn(simulator.client(HOT), write)
        for _ in range(readers):
            simulator.spawn(simulator.client(HOT), read)
        simulator.run()
        if trouble == 0:
            writers = [turns[f"{name}.1"] for name in "abcd"]
            assert max(writers) <= 1.3 * min(writers) + 1
            assert min(turns.values()) > 10, "readers too"


def _again_and_again(me: Process, lock: LockBase, turns: Counter[str]) -> Work:
    ends = me.client.clock() + 2.0
    while me.client.clock() < ends:
        try:
            yield me.acquire(lock, None)
            turns[me.name] += 1
            yield me.pass_time(0.001)
            yield me.release(lock)
        except TROUBLE:
            yield from _leave(me, lock)
