"""The asyncio face in the simulator: what users write keeps the promises, whatever strikes."""

from __future__ import annotations

import gc
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import KINDS, Kind
from tests.support.cards import is_card
from tests.support.simulator import Interrupted, Simulator
from tests.support.simulator.driver import Client
from tests.support.simulator.invariants import defaults
from tests.support.simulator.queue import BoundedOvertaking
from tests.support.simulator.schedule import Schedule, interrupt
from tests.support.simulator.workload import EFFECT_FAULTS, OPTIONS, TIMED_FAULTS

from interlock.errors import AcquireTimeoutError, InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from tests.support.simulator import Process
    from tests.support.simulator.schedule import When

LOSSES = ("restart", "force release")
"""Faults by which two blocks rightly overlap for a moment."""
SEEDS = 6
FAULTS = Schedule(
    rates={
        **EFFECT_FAULTS,
        **{kind: rate for kind, rate in TIMED_FAULTS.items() if kind not in LOSSES},
    }
)
# The members of the others need one clock, and each simulated client has its own.
OF_ONE_SERVER = [kind for kind in KINDS if kind.servers == 1]
ALL = pytest.mark.parametrize("kind", OF_ONE_SERVER, ids=lambda kind: kind.name)


class Stage:
    """A simulation whose clients use one kind of lock."""

    def __init__(self, kind: Kind, seed: int, schedule: Schedule | None = None) -> None:
        self.kind = kind
        # Not I-13: a try that does not wait may take the lock whenever it is left to others. That
        # may be at the end of one period and at the beginning of the next.
        looks = [look for look in defaults() if not isinstance(look, BoundedOvertaking)]
        self.simulator = Simulator(seed, schedule=schedule, invariants=looks)

    def client(self) -> Client:
        """Return a new client."""
        return Client(self.simulator.client(OPTIONS))

    def lock(self, client: Client, **options: Any) -> Any:
        """Return *client*'s lock."""
        return self.kind.make(client, "name", **options)

    def spawn(self, work: Callable[[Client, Any], Coroutine[Any, Any, object]]) -> Process:
        """Start *work* in a client of its own, with that client's lock."""
        client = self.client()
        return client.spawn(lambda: work(client, self.lock(client, timeout=60)))

    def run(self) -> None:
        """Run all programs, and let everything come to rest."""
        while self.simulator.running():
            self.simulator.run_for(5)
        # An error that passed through an operation may keep its frames, and their holds, alive.
        _ = gc.collect()
        self.simulator.run()

    def left_behind(self) -> set[str]:
        """Return the keys that should not be there while the lock is free."""
        keys = {key for key in self.simulator.network.view() if not is_card(key)}
        return keys - self.kind.keeps("name")


@ALL
@pytest.mark.parametrize("seed", range(SEEDS))
def test_blocks_exclude_each_other(kind: Kind, seed: int) -> None:
    """At most one block has a valid hold, in whatever order the programs run and what strikes."""
    stage = Stage(kind, seed, FAULTS if seed % 2 else None)
    random, inside = stage.simulator.random, list[Any]()

    async def visit(client: Client, lock: Any) -> None:
        async with lock as hold:
            inside.append(hold)
            try:
                await client.pass_time(random.random() ** 3)
                if kind.reentrant:
                    async with lock:
                        await client.pass_time(random.random() ** 3)
                valid = [each for each in inside if each.valid]
                assert len(valid) <= 1, stage.simulator.story()
            finally:
                inside.remove(hold)

    async def work(client: Client, lock: Any) -> None:
        for _ in range(3):
            with suppress(InterlockError, Interrupted):
                await visit(client, lock)
            with suppress(InterlockError, Interrupted):
                async with lock.trying(random.choice((0, 0.5))) as hold:
                    await client.pass_time(random.random() ** 3 if hold else 0)

    for _ in range(3):
        _ = stage.spawn(work)
    stage.run()
    assert stage.left_behind() == set()


@ALL
@pytest.mark.parametrize("when", ["before", "after", "late"])
def test_an_interrupted_block_leaves_nothing_behind(kind: Kind, when: When) -> None:
    """A block that is interrupted at any effect holds nothing afterwards, and others go on."""

    async def holder(client: Client, lock: Any) -> None:
        async with lock:
            await client.pass_time(1)

    async def struck(client: Client, lock: Any) -> None:
        await client.pass_time(0.1)
        async with lock:
            await client.pass_time(0.1)

    def play(schedule: Schedule) -> tuple[Process, Process]:
        stage = Stage(kind, 1, schedule)
        _ = stage.spawn(holder)
        one = stage.spawn(struck)
        stage.simulator.run_for(1.5)
        next_one = stage.spawn(holder)
        stage.run()
        assert stage.left_behind() == set(), stage.simulator.story()
        return one, next_one

    whole, _ = play(Schedule())
    assert whole.error is None
    assert len(whole.effects) >= 4
    for place in range(len(whole.effects)):
        fault = interrupt(when, seconds=0.05)
        one, next_one = play(Schedule(effects={(whole.name, place): fault}))
        assert isinstance(one.error, Interrupted), place
        assert next_one.error is None, place


def test_two_processes_of_one_client_are_two_owners() -> None:
    """Each coroutine owns what it acquired; a timeout of another one names the lock."""
    stage = Stage(KINDS[0], 1)
    client = stage.client()

    async def first() -> None:
        async with stage.lock(client):
            await client.pass_time(1)

    async def second() -> str:
        await client.pass_time(0.1)
        assert not await stage.lock(client).owned()
        with pytest.raises(AcquireTimeoutError, match="name"):
            async with stage.lock(client, timeout=0.2):
                raise AssertionError("it is the other's")
        return "refused"

    _ = client.spawn(first)
    other = client.spawn(second)
    stage.run()
    assert other.result == "refused"
