"""Multi and red locks in the simulator: three servers, and any fault at any effect."""

from __future__ import annotations

from contextlib import suppress
from operator import sub
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.every_fault import OPTIONS
from tests.support.simulator import Simulator
from tests.support.simulator.schedule import EFFECT_KINDS, Interrupted, Schedule

from interlock._core.locks.composite import depths
from interlock._core.locks.lock import Lock
from interlock._core.locks.multi_lock import MultiLock
from interlock._core.locks.red_lock import RedLock
from interlock.errors import InterlockError

if TYPE_CHECKING:
    from collections.abc import Generator, Sequence

    from tests.support.simulator import Process, SimulatedClient

    from interlock._core.locks.composite import CompositeHold, CompositeLock
    from interlock._core.locks.lock_base import LockBase
    from interlock._core.model.effects import Op

LINGER = 0.005
"""Seconds for which servers may still grant a red lock after a quorum has (see `patience`)."""
SERVERS = 3
REST = 60.0
"""Seconds: longer than any lease, and what the background may still have to bring."""
RATES = {**dict.fromkeys(EFFECT_KINDS, 0.02), "abandon": 0.0, "outage": 0.03, "lose messages": 0.05}
TROUBLE = (InterlockError, Interrupted)


class OneServer(MultiLock):
    """A multi lock whose members are on one server, so that one script takes them."""

    def __init__(self, members: Sequence[LockBase]) -> None:
        super().__init__([Lock(members[0].session, name) for name in ("a", "b", "c")])


class World:
    """Three servers, and machines that each have one clock and a client of every server."""

    def __init__(self, seed: int, schedule: Schedule) -> None:
        self.simulator = Simulator(seed, schedule=schedule, invariants=())
        self.networks = [
            self.simulator.network,
            *(self.simulator.server() for _ in range(SERVERS - 1)),
        ]
        self.held: list[tuple[SimulatedClient, CompositeHold]] = []
        self.machines: list[list[SimulatedClient]] = []

    def machine(self) -> list[SimulatedClient]:
        """Return the clients of another machine."""
        clients = [self.simulator.client(server=network, **OPTIONS) for network in self.networks]
        for client in clients:
            client.clock = client.session.clock = clients[0].clock
        self.machines.append(clients)
        return clients

    def spawn(
        self,
        kind: type[CompositeLock],
        *,
        timeout: float,
        lease: float | None = None,
        rounds: int = 1,
    ) -> None:
        """Start a process on its own machine; *rounds* times it acquires and releases twice."""
        clients = self.machine()
        joint = kind([Lock(client.session, "name") for client in clients])

        def entered(me: Process) -> Generator[Op[Any], Any, CompositeHold | None]:
            """Acquire, or fail and leave the depths of all members as they were."""
            former = depths(joint._holds(me.owner))
            hold: CompositeHold | None = None
            with suppress(*TROUBLE):
                hold = yield joint.acquire(me.owner, me.client.clock() + timeout, lease)
            assert hold is not None or max(map(sub, depths(joint._holds(me.owner)), former)) <= 0
            return hold

        def program(me: Process) -> Generator[Op[Any], Any, None]:
            for _ in range(rounds):
                hold = yield from entered(me)
                try:
                    if hold is not None:
                        self._enter(clients[0], hold)
                        _ = yield from entered(me)
                        yield me.pass_time(0.05)
                except TROUBLE:
                    pass
                while hold is not None and hold.kept():
                    try:
                        yield joint.release(me.owner)
                    except TROUBLE:
                        break

        self.simulator.spawn(clients[0], program, f"p{len(self.machines) - 1}")

    def _enter(self, client: SimulatedClient, hold: CompositeHold) -> None:
        for other, former in self.held:
            assert other is client or not former.valid(other.clock()), "two hold it"
        self.held.append((client, hold))

    def play(self) -> None:
        """Run until all is at rest, and look whether anything is left."""
        while self.simulator.running():
            self.simulator.run_for(1)
        self.simulator.heal()
        self.simulator.run_for(REST)
        for client in self.simulator.clients:
            if not client.crashed:
                assert len(client.cleanups) == 0
                assert len(client.session.holds) == 0
                assert client.session.waiters.channels() == []
        for network in self.networks:
            assert network.dump() == {}


@pytest.mark.parametrize("kind", [MultiLock, OneServer, RedLock])
@pytest.mark.parametrize("seed", range(12))
def test_many_faults_at_random(kind: type[CompositeLock], seed: int) -> None:
    """Under random faults two never hold it, and nothing is left of it when all is at rest."""
    world = World(seed, Schedule(rates=RATES))
    for timeout in (5.0, 30.0, 0.0):
        world.spawn(kind, timeout=timeout, rounds=3)
    world.play()


@pytest.mark.parametrize("kind", [MultiLock, OneServer, RedLock])
@pytest.mark.parametrize("seed", range(10))
def test_the_dead_leave_nothing(kind: type[CompositeLock], seed: int) -> None:
    """When a machine dies, its holds end with their lease on every server; others go on."""
    world = World(seed, Schedule(rates=RATES))
    for timeout in (5.0, 30.0, 2.0):
        world.spawn(kind, timeout=timeout, rounds=3)
    dying = world.machines[seed % 3]
    world.simulator.timeline.at(seed * 0.013, lambda: [client.crash() for client in dying])
    world.play()
