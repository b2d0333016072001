"""A simulated world: its servers, clients and locks, and what they tell it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NoReturn

from interlock._core.upkeep.session import GRACE
from interlock.errors import InterlockError
from tests.support.simulator.doubts import Doubts
from tests.support.simulator.rules import rules_of
from tests.support.simulator.schedule import Interrupted

if TYPE_CHECKING:
    from random import Random

    from interlock._core.locks.lock_base import LockBase
    from tests.support.simulator.client import SimulatedClient
    from tests.support.simulator.network import Network
    from tests.support.simulator.runner import Runner
    from tests.support.simulator.schedule import Fault, Schedule
    from tests.support.simulator.timeline import Timeline

SHOWN = 40
"""How many events an error tells of."""


class InvariantError(AssertionError):
    """Something happened that must never happen."""


class World:
    """What a simulation consists of; `Simulator` runs it.

    Attributes:
        seed: decides everything that is left to chance.
        schedule: the faults.
        latency: seconds that one way to the server takes at least and at most.
        timeline: the virtual time.
        networks: every server and the way to it; ``dump()`` tells what is stored.
        clients: all that were made.
        locks: all locks that were used, by their places.
        disturbed_at: when a fault was last at work.
        healed: whether no further fault happens.
        changed: whether a server stores something else than at the last check, or a lock is new.
        doubts: what cannot be known for certain.
    """

    def __init__(
        self, seed: int, timeline: Timeline, schedule: Schedule, latency: tuple[float, float]
    ) -> None:
        self.seed = seed
        self.timeline = timeline
        self.schedule = schedule
        self.latency = latency
        self.networks: list[Network] = []
        self.clients: list[SimulatedClient] = []
        self.locks: dict[tuple[str, str, str], LockBase] = {}
        self.disturbed_at = 0.0
        self.healed = False
        self.changed = True
        self.doubts = Doubts(self.networks, self.clients)
        self.longest_lease = self.longest_reply = 0.0
        self._survivors, self._surveyed = frozenset[str](), 0

    @property
    def network(self) -> Network:
        """The first server."""
        return self.networks[0]

    @property
    def random(self) -> Random:
        """The run's source of randomness."""
        return self.timeline.random

    @property
    def now(self) -> float:
        """Seconds since the start."""
        return self.timeline.now

    def fail(self, what: str) -> NoReturn:
        """Raise InvariantError for *what*, with the seed and what happened last."""
        raise InvariantError(f"{what}\n{self.story()}")

    def story(self) -> str:
        """Return the seed, the schedule of faults, and what happened last."""
        latest = list(self.timeline.trace)[-SHOWN:]
        return "\n".join(
            [
                f"seed {self.seed}, {self.schedule}",
                f"at {self.now:.4f} s; the latest events:",
                *map(str, latest),
            ]
        )

    def survivors(self) -> frozenset[str]:
        """Return the keys that may stay."""
        if len(self.locks) != self._surveyed:
            found = (rules_of(lock).survivors(lock) for lock in self.locks.values())
            self._survivors, self._surveyed = frozenset[str]().union(*found), len(self.locks)
        return self._survivors

    # What its parts tell it.

    def fault_at(self, runner: Runner[Any], number: int) -> Fault | None:
        """Return the fault that strikes effect *number* of *runner*."""
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
        """Note that *lock* is used, for *lease* seconds at a time: the invariants look at it."""
        _ = rules_of(lock)
        self.locks[lock.sort_key] = lock
        self.longest_lease = max(self.longest_lease, lease)
        self.longest_reply = max(self.longest_reply, lock.session.options.command_timeout)

    def ended(self, runner: Runner[Any]) -> None:
        """Raise the error that ended *runner*, unless any process may end by it."""
        error = runner.error
        if error is not None and not isinstance(error, InterlockError | Interrupted):
            error.add_note(self.story())
            raise error

    def check_bound(self, runner: Runner[Any], overdue: float) -> None:
        """Check that an operation of *runner* may be *overdue* by so many seconds (I-10)."""
        # A try that was sent in time may wait for its reply until the command time-out.
        if overdue > 3 * GRACE + self.longest_reply:
            self.fail(f"I-10: {runner.name} was answered {overdue:.3f} s too late")
