"""A deterministic simulator: many clients, processes and faults in virtual time, from one seed.

It is the fourth driver of the lock algorithms, beside threads, asyncio and trio. They run
unchanged, and so does the Lua text of their scripts. The simulator stands for the operating system
and the network. The order of everything depends on nothing but the seed::

    from tests.support.simulator import Process, Simulator

    def worker(me: Process):
        lock = me.lock("orders:42")
        if (yield me.acquire(lock, timeout=5)):
            yield me.pass_time(1)
            yield me.release(lock)

    simulator = Simulator(seed=1)
    simulator.spawn(simulator.client(), worker)
    simulator.spawn(simulator.client(), worker)
    simulator.run()

A process is a generator that yields operations and is sent their results. After every step the
invariants are checked; a breach raises `InvariantError`. To play random programs under random
faults: ``python -m tests.support.simulator --seeds 1000``.

Prior art: FoundationDB's simulation; TigerBeetle's VOPR (faults first, then everything is healed
and must come to rest).
"""

from __future__ import annotations

import string
from random import Random
from typing import TYPE_CHECKING, Unpack

from interlock.options import Options
from tests.support.simulator.client import Process, Program, SimulatedClient
from tests.support.simulator.faults import plan, strike
from tests.support.simulator.invariants import Invariant, defaults
from tests.support.simulator.network import Network
from tests.support.simulator.rules import RULES, Dump, Dumps, Rules
from tests.support.simulator.schedule import Interrupted, Schedule
from tests.support.simulator.timeline import Event, Timeline
from tests.support.simulator.world import InvariantError, World

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock.options import OptionChanges
    from tests.support.simulator.schedule import Fault

__all__ = [
    "RULES",
    "Dump",
    "Dumps",
    "Event",
    "Interrupted",
    "Invariant",
    "InvariantError",
    "Process",
    "Program",
    "Rules",
    "Schedule",
    "SimulatedClient",
    "Simulator",
    "StepBudgetError",
    "World",
]


class StepBudgetError(RuntimeError):
    """A run did not come to its end: somebody waits for ever, or goes round in circles."""


class Simulator(World):
    """One simulation.

    Args:
        seed: decides everything that is left to chance.
        schedule: the faults.
        latency: seconds that one way to the server takes at least and at most.
        invariants: what to check after every step; everything in the documentation unless given.
        steps: how many steps a run may take.
    """

    def __init__(
        self,
        seed: int,
        *,
        schedule: Schedule | None = None,
        latency: tuple[float, float] = (0.0002, 0.002),
        invariants: Sequence[Invariant] | None = None,
        steps: int = 200_000,
    ) -> None:
        timeline = Timeline(Random(seed))
        super().__init__(seed, timeline, schedule or Schedule(), latency)
        self._invariants = defaults() if invariants is None else tuple(invariants)
        self._looks = [invariant.after_step for invariant in self._invariants]
        self._budget = steps
        self._kept: dict[str, Dump] = {}
        self._locks_seen = 0
        _ = self.server()
        plan(self)

    def server(self) -> Network:
        """Return another server, independent of the others."""
        where = "server" + (str(len(self.networks) + 1) if self.networks else "")
        network = Network(where, self.timeline, self.latency, self)
        self.networks.append(network)
        return network

    def client(
        self,
        options: Options | None = None,
        *,
        server: Network | None = None,
        **changes: Unpack[OptionChanges],
    ) -> SimulatedClient:
        """Return a new client.

        Args:
            options: its options; the defaults unless given.
            server: the one that it uses; the first unless given.
            changes: options that differ.
        """
        number = len(self.clients)
        name = string.ascii_lowercase[number % 26] + str(number // 26 or "")
        chosen = (options or Options()).replace(**changes)
        client = SimulatedClient(self, server or self.network, name, f"{number + 1:08x}", chosen)
        self.clients.append(client)
        return client

    def spawn(self, client: SimulatedClient, program: Program, name: str | None = None) -> Process:
        """Start *program* as a process of *client*."""
        return client.spawn(program, name)

    def run(self) -> None:
        """Run until every process has ended.

        Then heal all faults, let all leases end, and check that all is at rest. A process may end
        by an error of interlock's or by `Interrupted`: it is in ``process.error``.

        Raises:
            InvariantError: an invariant was broken.
            StepBudgetError: the budget is used up.
            Exception: what else a program raised.
        """
        running = self.running()
        while running:
            self._step()
            if running[-1].ended:
                running = self.running()
        self.heal()
        self.rest()

    def run_for(self, seconds: float) -> None:
        """Run for *seconds*, whatever is still to come."""
        end = self.now + seconds
        self.timeline.at(end, lambda: None)
        while self.now < end:
            self._step()

    def running(self) -> list[Process]:
        """Return the processes that have not ended."""
        return [p for client in self.clients for p in client.processes if not p.ended]

    def heal(self) -> None:
        """Let no further fault happen, and end those that last."""
        self.healed = True
        for network in self.networks:
            network.heal()
        for client in self.clients:
            client.resume()
        self.disturbed()

    def rest(self) -> None:
        """Let everything come to rest, and check that it has."""
        travelling = [e for network in self.networks for e in network.travelling]
        arriving = max((e.arriving or 0.0 for e in travelling), default=0.0)
        leases = [self.longest_lease, *(c.session.options.lease for c in self.clients)]
        self.run_for(max(arriving - self.now, 0.0) + 2 * max(leases) + 5)
        dumps = self._dumps()
        for invariant in self._invariants:
            invariant.at_rest(self, dumps)

    def strike(self, fault: Fault) -> None:
        """Strike with *fault* now."""
        strike(self, fault)

    def _step(self) -> None:
        if self.timeline.steps >= self._budget:
            raise StepBudgetError(f"not at rest after {self._budget} steps\n{self.story()}")
        if self.timeline.step():
            self.check()

    def check(self) -> None:
        """Check that all invariants hold now."""
        dumps, locks = self._kept, len(self.locks)
        changed = locks != self._locks_seen
        for network in self.networks:
            view = network.view()
            if dumps.get(network.where) is not view:
                dumps[network.where], changed = view, True
        self.changed, self._locks_seen = changed, locks
        self.doubts.clear_up(dumps)
        for look in self._looks:
            look(self, dumps)

    def _dumps(self) -> Dumps:
        return {network.where: network.view() for network in self.networks}
