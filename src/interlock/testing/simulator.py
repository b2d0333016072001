"""A deterministic simulator: many clients, processes and faults in virtual time, from one seed.

It is the third driver of the lock algorithms. They run unchanged, and so does the Lua text of their scripts; what the operating
system and the network would do, the simulator does, in an order that depends on nothing but the seed::

    from interlock.testing.simulator import Process, Simulator

    def worker(me: Process):
        lock = me.lock("orders:42")
        if (yield me.acquire(lock, timeout=5)):
            yield me.sleep(1)
            yield me.release(lock)

    simulator = Simulator(seed=1)
    simulator.spawn(simulator.client(), worker)
    simulator.spawn(simulator.client(), worker)
    simulator.run()

A process is a generator that yields operations and is sent their results. After every step the invariants are checked; what breaks
one raises `InvariantError`. ``python -m interlock.testing.simulator --seeds 1000`` plays random programs under random faults.

Prior art: FoundationDB's simulation, TigerBeetle's VOPR (faults first, then everything is healed and must come to rest).
"""

from __future__ import annotations

import string
from random import Random
from typing import TYPE_CHECKING, NoReturn, Unpack

from interlock._core.session import GRACE
from interlock.errors import InterlockError
from interlock.options import Options
from interlock.testing._sim_client import SimulatedClient
from interlock.testing._sim_doubts import Doubts
from interlock.testing._sim_faults import plan, strike
from interlock.testing._sim_invariants import Invariant, defaults
from interlock.testing._sim_network import Network
from interlock.testing._sim_process import Process, Program
from interlock.testing._sim_rules import RULES, Dump, Dumps, Rules
from interlock.testing._sim_time import Event, Timeline
from interlock.testing.schedule import Interrupted, Schedule

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.lock_base import LockBase
    from interlock.options import OptionChanges
    from interlock.testing._sim_runner import Runner
    from interlock.testing.schedule import Fault

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
]

SHOWN = 40
"""How many events an error tells of."""


class InvariantError(AssertionError):
    """Something happened that must never happen."""


class StepBudgetError(RuntimeError):
    """A run did not come to its end: somebody waits for ever, or goes round in circles."""


class Simulator:
    """One simulated world.

    Args:
        seed: decides everything that is left to chance.
        schedule: the faults.
        latency: seconds that one way to the server takes at least and at most.
        invariants: what to check after every step; everything in the documentation unless given.
        steps: how many steps a run may take.

    Attributes:
        timeline: the virtual time.
        networks: every server and the way to it; ``dump()`` tells what is stored.
        clients: all that were made.
        locks: all locks that were used, by their places.
        network: the first of them.
        disturbed_at: when a fault was last at work.
        healed: whether no further fault happens.
        doubts: what cannot be known for certain.
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
        self.seed = seed
        self.schedule = schedule or Schedule()
        self.latency = latency
        self.timeline = Timeline(Random(seed))  # noqa: S311 - reproducible on purpose
        self.networks: list[Network] = []
        self.clients: list[SimulatedClient] = []
        self.locks: dict[tuple[str, str, str], LockBase] = {}
        self.disturbed_at = 0.0
        self._invariants = defaults() if invariants is None else tuple(invariants)
        self._budget = steps
        self._longest_lease = 0.0
        self.healed = False
        self._survivors, self._surveyed = frozenset[str](), 0
        self.doubts = Doubts(self)
        self.network = self.server()
        plan(self)

    @property
    def random(self) -> Random:
        """The run's source of randomness."""
        return self.timeline.random

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.timeline.now

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
        """Run until every process has ended, then heal all faults, let all leases end, and look whether all is at rest.

        A process may end by an error of interlock's or by `Interrupted`: it is in ``process.error``.

        Raises:
            InvariantError: an invariant was broken.
            StepBudgetError: the budget is used up.
            Exception: what else a program raised.
        """
        while self.running():
            self._step()
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
        leases = [self._longest_lease, *(c.session.options.lease for c in self.clients)]
        self.run_for(max(arriving - self.now, 0.0) + 2 * max(leases) + 5)
        dumps = self._dumps()
        for invariant in self._invariants:
            invariant.at_rest(self, dumps)

    def strike(self, fault: Fault) -> None:
        """Have a fault happen now that comes at a time."""
        strike(self, fault)

    def fail(self, what: str) -> NoReturn:
        """Raise InvariantError for *what*, with the seed and what happened last."""
        raise InvariantError(f"{what}\n{self._story()}")

    # What its parts tell it.

    def fault_at(self, runner: Runner, number: int) -> Fault | None:
        """Return what befalls effect *number* of *runner*."""
        if self.healed:
            return None
        fault = self.schedule.at_effect(runner.name, number, self.random)
        if fault is not None:
            self.disturbed()
            self.timeline.after(fault.seconds, self.disturbed)
        return fault

    def disturbed(self) -> None:
        """Note that a fault is at work."""
        self.disturbed_at = self.now

    def note_use(self, lock: LockBase, lease: float) -> None:
        """Have the invariants look at *lock*, which is held for *lease* seconds at a time."""
        if lock.kind not in RULES:
            raise KeyError(f"no rules for a {lock.kind}: the simulator must be told in RULES")
        self.locks[lock.place] = lock
        self._longest_lease = max(self._longest_lease, lease)

    def ended(self, runner: Runner) -> None:
        """Raise what *runner* ended by, unless that may happen to anybody."""
        error = runner.error
        if error is not None and not isinstance(error, InterlockError | Interrupted):
            error.add_note(self._story())
            raise error

    def check_bound(self, runner: Runner, overdue: float) -> None:
        """Check that an operation of *runner* which is *overdue* by so many seconds is allowed to (I-10)."""
        if overdue > 3 * GRACE:
            self.fail(f"I-10: {runner.name} was answered {overdue:.3f} s too late")

    def survivors(self) -> frozenset[str]:
        """Return the keys that may stay."""
        if len(self.locks) != self._surveyed:
            found = (RULES[lock.kind].survivors(lock) for lock in self.locks.values())
            self._survivors, self._surveyed = frozenset[str]().union(*found), len(self.locks)
        return self._survivors

    def _step(self) -> None:
        if self.timeline.steps >= self._budget:
            raise StepBudgetError(f"not at rest after {self._budget} steps\n{self._story()}")
        if self.timeline.step():
            self.check()

    def check(self) -> None:
        """Check that all invariants hold now."""
        dumps = self._dumps()
        self.doubts.clear_up(dumps)
        for invariant in self._invariants:
            invariant.after_step(self, dumps)

    def _dumps(self) -> Dumps:
        return {network.where: network.view() for network in self.networks}

    def _story(self) -> str:
        latest = list(self.timeline.trace)[-SHOWN:]
        return "\n".join(
            [f"seed {self.seed}, at {self.now:.4f} s; the latest events:", *map(str, latest)]
        )


if __name__ == "__main__":
    from interlock.testing._sim_workload import main

    main()
