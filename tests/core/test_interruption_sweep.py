"""Every operation is interrupted at every effect, and leaves nothing behind.

The interruption comes before or after the server acted. The operations come from `SCENARIOS`, for
each kind of lock; a new object is one more entry. A run without faults records the effects of each
operation.
"""

from __future__ import annotations

import functools
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

import pytest
from tests.support.simulator import Process, Simulator
from tests.support.simulator.schedule import Fault, Interrupted, Schedule, abandon, fail, interrupt
from tests.support.simulator.workload import KINDS

from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.group_lock import GroupLock
from interlock._core.locks.spin_lock import SpinLock
from interlock._core.model.effects import Batch, Eval, Gather
from interlock.backoff import ExponentialBackoff
from interlock.errors import (
    AcquireTimeoutError,
    HoldLostError,
    ReplicationError,
    ServerUnavailableError,
)
from interlock.options import Options, ReplicaPolicy, required

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Iterator

    from interlock._core.model.effects import Op

LEASE = 2.0
OPTIONS = Options(
    lease=LEASE, fair_wait=LEASE, poll_cap=0.5, command_timeout=0.5, outage_timeout=1.0
)
PROMPT = 0.3
"""Seconds after which nothing is left of an interrupted operation.

One that is abandoned or late takes its lease.
"""
LATE = 0.05
TOO_LATE = 5.0


def _acquire_or_raise(me: Process, lock: Any) -> Op[object]:
    """Do what a with statement does."""
    hold = yield from lock.acquire(me.owner, me.client.clock() + 0.1, None)
    if hold is None:
        raise (yield from lock.refusal(0.1))
    return hold


@dataclass(frozen=True)
class Scenario:
    """An operation, and how to come to it.

    Attributes:
        name: for the test's id.
        operation: makes it, from the process and the lock.
        depth: how deep the process holds the lock before.
        step: by how much the depth changes.
        lease: of what is held before.
        rival_for: how long another client holds the lock first.
        idle: how long the process waits before the operation.
        ends_by: what it may raise without any fault.
        frees: whether it may end what anybody holds.
        absorbs: whether a server that does not answer is no reason to fail.
        replicas: what the process wants replicas to acknowledge.
        lags: seconds after which each replica does.
        shared: whether the one who wants it next waits in the same client all the time.
    """

    name: str
    operation: Callable[[Process, Any], Any]
    depth: int = 0
    step: int = 0
    lease: float | None = None
    rival_for: float = 0.0
    idle: float = 0.05
    ends_by: tuple[type[Exception], ...] = ()
    frees: bool = False
    absorbs: bool = False
    replicas: ReplicaPolicy | Literal["off"] = "off"
    lags: tuple[float, ...] = ()
    shared: bool = False


SCENARIOS = [
    Scenario("acquire", lambda me, lock: me.acquire(lock), step=1),
    Scenario("acquire-with-lease", lambda me, lock: me.acquire(lock, lease=LEASE), step=1),
    Scenario("acquire-after-waiting", lambda me, lock: me.acquire(lock), step=1, rival_for=0.2),
    Scenario(
        "acquire-replicated",
        lambda me, lock: me.acquire(lock),
        step=1,
        replicas=required(1, 0.1),
        lags=(0.02, 9.0),
    ),
    Scenario(
        "acquire-unreplicated",
        lambda me, lock: me.acquire(lock),
        ends_by=(ReplicationError,),
        replicas=required("all", 0.1),
        lags=(0.02, 9.0),
    ),
    Scenario(
        "acquire-unreplicated-after-waiting",
        lambda me, lock: me.acquire(lock),
        rival_for=0.2,
        ends_by=(ReplicationError,),
        replicas=required("all", 0.1),
    ),
    Scenario("acquire-in-vain", lambda me, lock: me.acquire(lock, timeout=0.1), rival_for=0.4),
    Scenario("acquire-one-try", lambda me, lock: me.acquire(lock, timeout=0), rival_for=0.4),
    Scenario(
        "acquire-or-raise",
        _acquire_or_raise,
        rival_for=0.4,
        ends_by=(AcquireTimeoutError,),
    ),
    Scenario("enter-again", lambda me, lock: me.acquire(lock), depth=1, step=1),
    Scenario(
        "enter-again-with-lease", lambda me, lock: me.acquire(lock, lease=LEASE), depth=2, step=1
    ),
    Scenario("release", lambda me, lock: me.release(lock), depth=1, step=-1),
    Scenario(
        "release-to-a-waiter", lambda me, lock: me.release(lock), depth=1, step=-1, shared=True
    ),
    Scenario(
        "acquire-behind-a-neighbour",
        lambda me, lock: me.acquire(lock),
        step=1,
        rival_for=0.2,
        shared=True,
    ),
    Scenario("release-inner", lambda me, lock: me.release(lock), depth=2, step=-1, absorbs=True),
    Scenario(
        "release-lost",
        lambda me, lock: me.release(lock),
        depth=1,
        step=-1,
        lease=0.2,
        idle=0.4,
        ends_by=(HoldLostError,),
    ),
    Scenario("extend", lambda me, lock: me.extend(lock, LEASE), depth=1, lease=1.0),
    Scenario("status", lambda me, lock: lock.status(), depth=1),
    Scenario("depth", lambda me, lock: lock.depth_of(me.owner), depth=2),
    Scenario("force-release", lambda me, lock: lock.force_release(), rival_for=0.4, frees=True),
    Scenario("force-release-own", lambda me, lock: lock.force_release(), depth=1, frees=True),
]

ONCE: dict[str, Callable[[Process, str], Any]] = {
    "lock once": lambda me, name: me.lock(name, reentrant=False),
    "fair lock once": lambda me, name: FairLock(me.client.session, name, reentrant=False),
    "fenced lock once": lambda me, name: FencedLock(me.client.session, name, reentrant=False),
    "spin lock once": lambda me, name: SpinLock(
        me.client.session, name, backoff=ExponentialBackoff(), reentrant=False
    ),
    "group lock once": lambda me, name: GroupLock(me.client.session, name, ["a"], reentrant=False),
}
"""Locks that are not reentrant differ in that alone: the sweep of the others covers the rest."""
LOCKS = {**KINDS, **ONCE}
FOR_ONCE = ("acquire", "acquire-after-waiting", "release")


def scenarios(kind: str) -> list[Scenario]:
    """Return what is played with *kind*."""
    again = kind in KINDS and kind != "election"  # which cannot be entered again either
    return [each for each in SCENARIOS if again or each.name in FOR_ONCE]


FAULTS: dict[str, Fault] = {
    "interrupted-before": interrupt("before"),
    "interrupted-after": interrupt("after"),
    "interrupted-late": interrupt("late", seconds=LATE),
    "refused": fail(sent=False),
    "reply-lost": fail(sent=True),
    "abandoned-before": abandon("before"),
    "abandoned-after": abandon("after"),
}


class Run:
    """One run of a scenario.

    Its processes are the victim of the fault, a rival that may hold the lock first, and a successor
    that wants it next.
    """

    def __init__(self, kind: str, scenario: Scenario, faults: dict[int, Fault]) -> None:
        self.scenario = scenario
        self.faults = faults
        self.fault = next(iter(faults.values()), None)
        effects = {("victim", number): fault for number, fault in faults.items()}
        self.simulator = Simulator(seed=1, schedule=Schedule(effects=effects))
        self.make = functools.partial(LOCKS[kind], name="x")
        self.simulator.network.replicas = list(scenario.lags)
        self.clients = [
            self.simulator.client(OPTIONS, replicas=policy)
            for policy in (scenario.replicas, "off", "off")
        ]
        self.span = range(0)
        self.error: BaseException | None = None
        self.given_back_at: float | None = None
        self.inherited_at = 0.0
        self.victim = self.simulator.spawn(self.clients[0], self._victim, "victim")
        shared = scenario.shared
        self.simulator.spawn(self.clients[0 if shared else 1], self._rival, "rival")
        self.simulator.spawn(self.clients[0 if shared else 2], self._successor, "successor")
        self.simulator.run()

    def _victim(self, me: Process) -> Generator[Any, Any, None]:
        lock = self.make(me)
        for _ in range(self.scenario.depth):
            assert (yield me.acquire(lock, lease=self.scenario.lease)) is not None
        yield me.pass_time(self.scenario.idle)
        begun = len(me.effects)
        try:
            yield self.scenario.operation(me, lock)
        except (Interrupted, ServerUnavailableError, *self.scenario.ends_by) as error:
            self.error = error
        self.span = range(begun, len(me.effects))
        assert self.scenario.shared or me.client.session.waiters.channels() == []
        yield from self._give_back(me, lock)
        self.given_back_at = self.simulator.now

    def _give_back(self, me: Process, lock: Any) -> Generator[Any, Any, None]:
        depth = self.depth_after()
        hold = me.client.session.holds.get(lock.hold_key, me.owner)
        assert depth == (0 if hold is None else hold.depth)
        # A re-entry may arrive after its undo. Then the server counts it until the next release
        # tells the right depth.
        told = self.fault is None or self.fault.when != "late"
        valid = hold is not None and hold.valid(me.client.clock())
        if valid and told and not self.scenario.frees:
            yield me.pass_time(PROMPT)
            assert (yield lock.depth_of(me.owner)) == depth, "the server knows another depth"
        for _ in range(depth):
            try:
                yield me.release(lock)
            except HoldLostError:
                assert self.scenario.frees
                return
        assert not me.holds(lock)

    def depth_after(self) -> int:
        """Return how deep the victim must hold the lock afterwards."""
        before, after = self.scenario.depth, self.scenario.depth + self.scenario.step
        if self.error is None or isinstance(self.error, self.scenario.ends_by):
            return after
        # A release that is interrupted is carried through; one that fails may be tried again.
        return min(before, after) if isinstance(self.error, Interrupted) else before

    def _rival(self, me: Process) -> Generator[Any, Any, None]:
        if self.scenario.rival_for:
            lock = self.make(me)
            assert (yield me.acquire(lock)) is not None
            yield me.pass_time(self.scenario.rival_for)
            try:
                yield me.release(lock)
            except HoldLostError:
                assert self.scenario.frees

    def _successor(self, me: Process) -> Generator[Any, Any, None]:
        lock = self.make(me)
        if self.scenario.shared:
            yield me.pass_time(0.03)  # the victim holds it then, or its rival does
            assert (yield me.acquire(lock, TOO_LATE)) is not None, "the lock never became free"
            self.inherited_at = self.simulator.now - (self.given_back_at or 0.0)
            yield me.pass_time(0.01)
            yield me.release(lock)
            return
        while self.given_back_at is None and not self.victim.ended:
            yield me.pass_time(0.01)
        over_at = max(self.simulator.now, self.scenario.rival_for)
        assert (yield me.acquire(lock, TOO_LATE)) is not None, "the lock never became free"
        self.inherited_at = self.simulator.now - over_at
        yield me.release(lock)


def blows(kind: str, scenario: Scenario) -> Iterator[tuple[str, int, Fault]]:
    """Yield every fault at every effect of *scenario*, with its name."""
    recorded = Run(kind, scenario, {})
    for number in recorded.span:
        effect = recorded.victim.effects[number]
        for name, fault in FAULTS.items():
            if isinstance(effect, Eval | Batch | Gather) or fault.error is Interrupted:
                place = f"{number - recorded.span.start}-{type(effect).__name__.lower()}"
                yield f"{place}-{name}", number, fault


EACH = pytest.mark.parametrize(
    ("kind", "scenario"),
    [
        pytest.param(kind, each, id=f"{kind}-{each.name}")
        for kind in LOCKS
        for each in scenarios(kind)
    ],
)


@EACH
def test_interruption_leaves_nothing_behind(kind: str, scenario: Scenario) -> None:
    """An operation that is interrupted anywhere raises what interrupted it.

    It leaves the server, the table and the queue as before.
    """
    for name, number, fault in blows(kind, scenario):
        try:
            _leaves_nothing_behind(Run(kind, scenario, {number: fault}), fault)
        except BaseException as error:
            error.add_note(f"at {name}")
            raise


def _leaves_nothing_behind(run: Run, fault: Fault) -> None:
    [number] = run.faults
    if fault.kind == "abandon":
        assert run.victim.ended
        assert run.given_back_at is None
    elif fault.error is Interrupted:
        assert isinstance(run.error, Interrupted)
    elif run.scenario.absorbs or _gives_up(run.victim.effects[number], run.scenario):
        assert run.error is None
    else:
        assert isinstance(run.error, (ServerUnavailableError, *run.scenario.ends_by))
    promised = PROMPT if fault.kind == "raise" and fault.when != "late" else LEASE + PROMPT
    assert run.inherited_at <= promised


def _gives_up(effect: object, scenario: Scenario) -> bool:
    """Return whether *effect* gives back the place of a waiter that waited in vain.

    The wait is in vain whether the server answers that or not.
    """
    if isinstance(effect, Batch) and effect.evals[0].script.name == "forced_note_write":
        return True  # a forced release goes on without its notes
    scripts = ("fair_lock_release", "lock_release", "fenced_lock_release", "write_lock_release")
    gives_back = isinstance(effect, Eval) and effect.script.name in scripts
    return gives_back and scenario.name == "acquire-in-vain"


@EACH
def test_scenario_runs_without_faults(kind: str, scenario: Scenario) -> None:
    """Without faults every scenario does what it says, and has at least one effect to interrupt."""
    run = Run(kind, scenario, {})

    assert len(run.span) >= 1
    assert (run.error is not None) == bool(scenario.ends_by)
    assert run.inherited_at <= PROMPT
