"""Conditions in the simulator: whatever happens, no notification is lost, and none wakes two."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.every_fault import FAULTS, OPTIONS
from tests.support.simulator import Simulator
from tests.support.simulator.schedule import Interrupted, Schedule, abandon, crash, pause, restart

from interlock._core.model.effects import NEVER
from interlock._core.model.holds import PENDING
from interlock._core.objects.condition import Condition
from interlock.errors import HoldLostError, InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from tests.support.simulator import Process

    from interlock._core.model.effects import Op

    Work = Generator[Op[Any], Any, object]

ALL = {**FAULTS, "killed-before": abandon("before"), "killed-after": abandon("after")}
LATER = 12.0
"""Seconds after which all who wait have come, whatever befell them."""
SEEN = 45.0
"""Seconds after which all notifications have found their waiters: some leases have ended."""


@dataclass(slots=True)
class Ending:
    """How a wait ended: by what, and whether the lock was held then."""

    by: object
    held: bool


class World:
    """Waiters and notifiers of one condition, and how the waits ended."""

    def __init__(
        self, schedule: Schedule, *, shared: bool = False, seed: int = 1, **options: Any
    ) -> None:
        self.simulator = Simulator(seed, schedule=schedule)
        self.endings: dict[str, Ending] = {}
        self.played: dict[str, Process] = {}
        self._answered: set[str] = set()
        self._options = {**OPTIONS, **options}
        self._shared = self.simulator.client(**self._options) if shared else None

    def add(self, name: str, program: Callable[[Process], Work]) -> None:
        """Start *program*, in a client of its own unless they share one."""
        client = self._shared or self.simulator.client(**self._options)
        self.played[name] = self.simulator.spawn(client, program, name)

    def waiter(self, timeout: float = NEVER, *, later: float = 0.0) -> Callable[[Process], Work]:
        """Return a program that waits once."""

        def program(me: Process) -> Work:
            lock, condition = _things(me)
            yield me.pass_time(later)
            yield me.acquire(lock)
            deadline = me.client.clock() + timeout
            by: object
            try:
                by = yield condition.wait(me.owner, deadline)
            except (InterlockError, Interrupted) as error:
                by = error
            self.endings[me.name] = Ending(by, me.holds(lock))
            if me.holds(lock):
                yield me.release(lock)
            return True

        return program

    def notified(self) -> int:
        """Return how many waiters were notified; one that was killed as it was told counts."""
        told = {name for name, ending in self.endings.items() if ending.by is True}
        for event in self.simulator.timeline.trace:
            ran = str(event.what)
            what, of, name = ran.partition(": ")[0].partition(" of ")
            if of and what == "condition_end" and ran.endswith("[1]"):
                self._answered.add(name.removesuffix(" again"))
        killed = {
            name
            for name, process in self.played.items()
            if process.ended and process.result is None and name not in self.endings
        }
        return len(told | (killed & self._answered))

    def play(self, expected: int) -> None:
        """Go on until *expected* waiters were notified, and a bit longer, or for `SEEN`."""
        while self.simulator.now < SEEN and self.notified() < expected:
            self.simulator.run_for(1)
        self.simulator.run_for(1)


def _things(me: Process) -> tuple[Any, Condition]:
    lock = me.lock("lock")
    return lock, Condition(me.client.session, lock, "name")


def _notifier(*counts: int, at: float = LATER) -> Callable[[Process], Work]:
    """Return a program that notifies so many waiters, one time after another."""

    def program(me: Process) -> Work:
        lock, condition = _things(me)
        yield me.pass_time(at)
        yield me.acquire(lock)
        for count in counts:
            yield condition.notify(me.owner, count)
        yield me.release(lock)
        return True

    return program


def _play(
    schedule: Schedule,
    counts: Sequence[int],
    expected: int,
    *,
    waiters: int = 3,
    shared: bool = False,
) -> World:
    world = World(schedule, shared=shared)
    for number in range(waiters):
        world.add(f"w{number}", world.waiter(later=number * 0.1))
    world.add("n", _notifier(*counts))
    world.play(expected)
    return world


def _check(world: World, expected: int) -> None:
    assert world.notified() == expected, world.endings
    for name, ending in world.endings.items():
        lost = isinstance(ending.by, HoldLostError)
        assert ending.held is not lost, (name, ending)


@pytest.mark.parametrize(
    ("fault", "shared"),
    [(each, False) for each in ALL] + [(each, True) for each in ALL if each[:2] in ("in", "ki")],
)
def test_one_fault_at_every_effect_of_a_waiter(fault: str, shared: bool) -> None:
    """Two notifications wake two waiters of three, wherever a fault befalls the first one."""
    world = _play(Schedule(), (1, 1), 2, shared=shared)
    _check(world, 2)
    effects = len(world.played["w0"].effects)
    assert effects >= 8
    for place in range(1, effects + 2):
        world = _play(Schedule({("w0", place): ALL[fault]}), (1, 1), 2, shared=shared)
        _check(world, 2)
        holds = world.played["w0"].client.session.holds.snapshot()
        assert all(hold.state != PENDING for hold in holds), place


@pytest.mark.parametrize("seed", range(25))
def test_faults_of_several_waiters(seed: int) -> None:
    """Two notifications wake two waiters of five, whatever befalls three of them."""
    draw = Random(seed)
    effects = {(f"w{n}", draw.randint(1, 16)): ALL[draw.choice(list(ALL))] for n in range(2)}
    # Before the notifications: the others may have got theirs from a dead one, but not twice.
    struck = draw.choice([crash("c"), pause(3600.0, "c")])
    schedule = Schedule(effects, times=[(LATER - draw.random(), struck)])
    world = _play(schedule, (1, 1), 2, waiters=5)
    _check(world, 2)
    waiting = [name for name in ("w3", "w4") if name not in world.endings]
    world.add("rest", _notifier(-1, at=0.1))
    world.simulator.run_for(5)
    assert all(world.endings[name].by is True for name in waiting)


@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_at_every_effect_of_a_notifier(fault: str) -> None:
    """A notification counts once, whichever fault befalls it, unless it was refused or not sent."""
    world = _play(Schedule(), (1,), 1)
    effects = len(world.played["n"].effects)
    for place in range(2, effects):  # after its sleep and its acquire
        world = _play(Schedule({("n", place): FAULTS[fault]}), (1,), 1)
        refused = place == 2 and fault == "refused"
        _check(world, 0 if refused else 1)


@pytest.mark.parametrize("tenth", range(-3, 12))
def test_a_notified_waiter_that_dies_loses_nothing(tenth: int) -> None:
    """When the first waiter is killed around the notification, another one gets it."""
    struck = Schedule(times=[(LATER + tenth / 1000, crash("a"))])
    world = _play(struck, (1,), 1)
    _check(world, 1)


@pytest.mark.parametrize("seed", range(5))
def test_nobody_waits_for_a_dead_waiter_beyond_its_lease(seed: int) -> None:
    """The notification of a dead waiter goes on when its lease ends, and not a poll cap later."""
    world = World(Schedule(times=[(LATER, crash("a"))]), seed=seed, poll_cap=3600.0)
    world.add("w0", world.waiter())
    world.add("w1", world.waiter(later=0.1))
    world.add("n", _notifier(1, at=LATER + 0.1))
    world.simulator.run_for(LATER + OPTIONS["lease"] + 0.1)
    assert world.endings == {"w1": Ending(by=True, held=True)}


@pytest.mark.parametrize("tenth", range(-3, 12))
def test_a_frozen_waiter_wakes_nobody_twice(tenth: int) -> None:
    """The notification of a waiter that is frozen for its lease goes on; it finds it gone."""
    struck = Schedule(times=[(LATER + tenth / 1000, pause(12.0, "a"))])
    world = _play(struck, (1,), 1)
    told = [name for name, ending in world.endings.items() if ending.by is True]
    assert len(told) == 1, world.endings
    for name, ending in world.endings.items():
        # Frozen after it was told, it has lost the lock meanwhile.
        late = name == "w0" and ending.by is True
        assert ending.held or late or isinstance(ending.by, HoldLostError), (name, ending)


def test_a_waiter_of_a_server_without_data_goes_on() -> None:
    """When the server has lost its data, waits return False. They may have missed news."""
    world = _play(Schedule(times=[(LATER - 1, restart())]), (), 3, waiters=2)
    assert [ending.by for ending in world.endings.values()] == [False, False]
    assert all(ending.held for ending in world.endings.values())


@pytest.mark.parametrize("timeout", [11.999, 12.0, 12.001, 12.002, 12.003, 12.005, 12.01])
def test_a_time_out_and_a_notification_agree(timeout: float) -> None:
    """A notification that meets a time-out wakes this waiter or the next, never none or both."""
    world = World(Schedule())
    world.add("w0", world.waiter(timeout))
    world.add("w1", world.waiter(later=0.1))
    world.add("n", _notifier(1))
    world.simulator.run_for(SEEN)
    assert world.notified() == 1, world.endings
    assert world.endings["w0"].held


def test_first_come_first_notified() -> None:
    """Waiters are notified in the order of their coming, and who comes later is not."""
    world = World(Schedule())
    for number in (2, 0, 1):
        world.add(f"w{number}", world.waiter(later=number * 0.1))
    world.add("w3", world.waiter(later=LATER + 1))
    world.add("n", _notifier(2))
    world.simulator.run_for(SEEN)
    assert set(world.endings) == {"w0", "w1"}
    world.add("all", _notifier(-1, at=0.1))
    world.simulator.run_for(5)
    assert set(world.endings) == {"w0", "w1", "w2", "w3"}
    world.simulator.run()
    kept = {key for key in world.simulator.network.dump() if key.startswith("interlock_condition")}
    assert not kept


def test_a_depth_is_kept() -> None:
    """A lock that was entered twice is given up wholly, and held twice afterwards."""
    depths: list[int] = []

    def program(me: Process) -> Work:
        lock, condition = _things(me)
        for _ in range(2):
            yield me.acquire(lock)
        depths.append((yield lock.depth_of(me.owner)))
        assert (yield condition.wait(me.owner, NEVER))
        depths.append((yield lock.depth_of(me.owner)))
        for _ in range(2):
            yield me.release(lock)
        return True

    world = World(Schedule())
    world.add("w0", program)
    world.add("n", _notifier(1))
    world.simulator.run()
    assert depths == [2, 2]
