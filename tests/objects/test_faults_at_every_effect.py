"""Every lock-like in the simulator, with each fault at every effect of each of two rivals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.every_fault import FAULTS, OPTIONS
from tests.support.simulator import Simulator
from tests.support.simulator.schedule import Interrupted, Schedule

from interlock._core.locks.fair_lock import FairLock
from interlock._core.locks.fenced_lock import FencedLock
from interlock._core.locks.group_lock import GroupLock
from interlock._core.locks.lock import Lock
from interlock._core.locks.multi_lock import MultiLock
from interlock._core.locks.read_write_lock import ReadLock, WriteLock
from interlock._core.locks.red_lock import RedLock
from interlock._core.locks.spin_lock import SpinLock
from interlock.backoff import ExponentialBackoff
from interlock.errors import HoldLostError, InterlockError

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence

    from tests.support.simulator import Process, SimulatedClient

    Sessions = Sequence[Any]

NAME = "name"
REST = 60.0
"""Seconds: longer than any lease, and what the background may still have to bring."""
TROUBLE = (InterlockError, Interrupted)
TRIES = 4


@dataclass(frozen=True)
class Class:
    """A class under test.

    Attributes:
        make: makes the lock of the first rival, from the sessions of its clients.
        other: makes that of the second one, if it is another.
        servers: how many it takes.
        reentrant: whether its owner may take it again.
    """

    make: Callable[[Sessions], Any]
    other: Callable[[Sessions], Any] | None = None
    servers: int = 1
    reentrant: bool = True


def _read(sessions: Sessions) -> Any:
    return ReadLock(sessions[0], NAME)


def _write(sessions: Sessions) -> Any:
    return WriteLock(sessions[0], NAME)


def _named(sessions: Sessions) -> list[Lock]:
    return [Lock(session, NAME) for session in sessions]


def _together(sessions: Sessions) -> Any:
    """Return a multi lock whose members are on one server, so that one script takes them."""
    return MultiLock([Lock(sessions[0], name) for name in ("a", "b", "c")])


CLASSES = {
    "lock": Class(lambda sessions: Lock(sessions[0], NAME)),
    "lock-once": Class(lambda sessions: Lock(sessions[0], NAME, reentrant=False), reentrant=False),
    "fair": Class(lambda sessions: FairLock(sessions[0], NAME)),
    "fenced": Class(lambda sessions: FencedLock(sessions[0], NAME)),
    "spin": Class(lambda sessions: SpinLock(sessions[0], NAME, backoff=ExponentialBackoff())),
    "write": Class(_write),
    "read-write": Class(_read, _write),
    "group": Class(
        lambda sessions: GroupLock(sessions[0], NAME, ["a", "b"]),
        lambda sessions: GroupLock(sessions[0], NAME, ["b", "c"]),
    ),
    "multi": Class(lambda sessions: MultiLock(_named(sessions)), servers=3),
    "together": Class(_together),
    "red": Class(lambda sessions: RedLock(_named(sessions)), servers=3),
}


class Game:
    """Two machines, each with one clock and a client of every server, that want one lock.

    Attributes:
        played: the process of each.
        entered: how often somebody was inside.
    """

    def __init__(self, tested: Class, lease: float | None, schedule: Schedule) -> None:
        self.simulator = Simulator(1, schedule=schedule, invariants=())
        others = [self.simulator.server() for _ in range(tested.servers - 1)]
        self._networks = [self.simulator.network, *others]
        self._tested, self._lease = tested, lease
        self._inside: list[tuple[SimulatedClient, Any]] = []
        self.played = [self._rival(0, 2.0), self._rival(1, 3.0)]
        self._play()

    @property
    def entered(self) -> int:
        """How often somebody came inside."""
        return len(self._inside)

    def _rival(self, number: int, timeout: float) -> Process:
        """Start a process that acquires, acquires again, and releases."""
        clients = [self.simulator.client(server=network, **OPTIONS) for network in self._networks]
        for client in clients:
            client.clock = client.session.clock = clients[0].clock
        make = (number and self._tested.other) or self._tested.make
        lock = make([client.session for client in clients])

        def acquired(me: Process) -> Any:
            return lock.acquire(me.owner, me.client.clock() + timeout, self._lease)

        def program(me: Process) -> Generator[Any, Any, None]:
            try:
                if (hold := (yield acquired(me))) is not None:
                    self._enter(clients[0], hold)
                    if self._tested.reentrant:
                        _ = yield acquired(me)
                    yield me.pass_time(0.05)
            except TROUBLE:
                pass
            for _ in range(TRIES):
                if lock.hold_of(me.owner) is None:
                    return
                try:
                    yield lock.release(me.owner)
                except HoldLostError:
                    return
                except TROUBLE:
                    continue

        return self.simulator.spawn(clients[0], program, f"p{number}")

    def _enter(self, client: SimulatedClient, hold: Any) -> None:
        for other, former in self._inside:
            assert other is client or not former.valid(other.clock()), "two hold it"
        self._inside.append((client, hold))

    def _play(self) -> None:
        """Run until all is at rest, and look whether anything is left."""
        while self.simulator.running():
            self.simulator.run_for(1)
        self.simulator.heal()
        self.simulator.run_for(REST)
        for client in self.simulator.clients:
            assert len(client.cleanups) == 0
            assert len(client.session.holds) == 0
            assert client.session.waiters.channels() == []
        for network in self._networks:
            left = [key for key in network.dump() if "token" not in str(key)]
            assert not left, "on the server"


@pytest.mark.promise("once")
@pytest.mark.parametrize("lease", [None, 5.0], ids=["renewed", "leased"])
@pytest.mark.parametrize("name", CLASSES)
@pytest.mark.parametrize("fault", FAULTS)
def test_one_fault_at_every_effect(name: str, fault: str, lease: float | None) -> None:
    """There are never two holders, and nothing is left on any server or in any table."""
    tested = CLASSES[name]
    recorded = Game(tested, lease, Schedule())
    assert recorded.entered == 2
    for process in recorded.played:
        assert len(process.effects) > 1
        for place in range(len(process.effects)):
            game = Game(tested, lease, Schedule({(process.name, place): FAULTS[fault]}))
            others = [each for each in game.played if each.name != process.name]
            assert game.entered >= len(others), "the other one was kept out"
