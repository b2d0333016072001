"""The core in virtual time: many clients and faults, from one seed.

Its steps, its upkeep, its rules for messages and its Lua run unchanged. What is here stands for the
driver, the threads of a client, the network, and the judge. One of the faults is a failover: the
server goes on with what it had a moment ago, and with another clock.

Prior art: FoundationDB's simulation; TigerBeetle's VOPR (faults first, then everything is healed
and must come to rest).
"""

# A failover changes a server from within.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import copy
import string
from random import Random
from typing import TYPE_CHECKING, Any, NoReturn

from tests.core.simulator.client import Client
from tests.core.simulator.judge import FAIR_WAIT, Judge
from tests.core.simulator.network import EPOCH, Network
from tests.core.simulator.schedule import Interrupted
from tests.core.simulator.timeline import Clock, Timeline

from interlock.errors import InterlockError
from interlock.options import Options

if TYPE_CHECKING:
    from collections.abc import Callable, Generator

    from tests.core.simulator.process import Process
    from tests.core.simulator.schedule import Fault, Schedule

    from interlock._core.locks.base import Lock
    from interlock._core.model.hold import Hold

SHOWN = 60
"""How many events an error tells of."""
RESENT = 0.2
"""Seconds in which clients send again what a failover may have lost."""
SKEW = 2.0
"""Seconds, at most, by which the clocks of two servers differ."""


class InvariantError(AssertionError):
    """Something happened that must never happen."""


class StepBudgetError(RuntimeError):
    """A run did not come to its end: somebody waits for ever, or goes round in circles."""


class Simulator:
    """One simulation.

    Args:
        seed: decides everything that is left to chance.
        schedule: the faults.
        steps: how many steps a run may take.

    Attributes:
        locks: the locks in use, by their keys.
        others: the keys of other objects that an operator may remove, those together that belong together.
        disturbed_at: when a fault was last at work.
    """

    latency = (0.0002, 0.002)

    def __init__(self, seed: int, schedule: Schedule, *, steps: int = 400_000) -> None:
        self.seed, self.schedule, self._budget = seed, schedule, steps
        self.timeline = Timeline(Random(seed))
        self.random = self.timeline.random
        self.network = Network(self)
        self._failed_over_at = -RESENT
        self.judge = Judge(self)
        self.clients: list[Client] = []
        self.locks: dict[str, Lock] = {}
        self.others: list[tuple[str, ...]] = []
        self.disturbed_at = 0.0
        self.healed = False
        self._plan_next()

    def client(self, options: Options) -> Client:
        number = len(self.clients)
        name = string.ascii_lowercase[number]
        client = Client(self, name, f"{number + 1:08x}", options)
        self.clients.append(client)
        return client

    def populate(
        self, begin: Callable[[Process], Callable[[], Generator[Any, Any, None]]], rounds: int
    ) -> None:
        """Add random clients, each process of which takes *rounds* turns, as *begin* makes them."""
        random = self.random

        def program(me: Process) -> Generator[Any, Any, None]:
            turn = begin(me)
            for _ in range(rounds):
                yield from me.sleep(random.random() ** 3)
                try:
                    yield from turn()
                except (InterlockError, Interrupted) as error:
                    if self.schedule.benign:
                        self.fail(f"without any fault {me.name} got {error!r}")

        without_messages = random.choice((0.0, 0.0, 0.5, 1.0))
        for _ in range(random.randint(2, 4)):
            client = self.client(
                Options(
                    lease=random.choice((2.0, 6.0, 12.0)),
                    command_timeout=0.5,
                    outage_timeout=2.0,
                    fair_wait=FAIR_WAIT,
                )
            )
            if random.random() < without_messages:
                client.session.publish = ""
            for _ in range(random.randint(1, 3)):
                client.spawn(program)

    def run(self) -> None:
        """Run until all processes have ended; then heal all, and look whether all comes to rest.

        Raises:
            InvariantError: something happened that must never happen.
            StepBudgetError: somebody waits for ever.
        """
        for client in self.clients:
            for process in client.processes:
                while not process.ended:
                    self._step()
        self.healed = True
        self.network.heal()
        for client in self.clients:
            client.resume()
        self.disturbed()
        leases = [client.session.options.lease for client in self.clients]
        arriving = [each.arriving or 0.0 for each in self.network.travelling]
        self._run_until(max([self.now, *arriving]) + 2 * max(leases) + 12)
        self.judge.at_rest()

    def _run_until(self, end: float) -> None:
        self.timeline.at(end, lambda: None)
        while self.now < end:
            self._step()

    def _step(self) -> None:
        if self.timeline.steps >= self._budget:
            raise StepBudgetError(f"not at rest after {self._budget} steps\n{self.story()}")
        if self.timeline.step():
            self.judge.after_step()

    @property
    def now(self) -> float:
        """True time."""
        return self.timeline.now

    def story(self) -> str:
        latest = list(self.timeline.trace)[-SHOWN:]
        return "\n".join(
            [f"seed {self.seed}, {self.schedule}, at {self.now:.4f} s:", *map(str, latest)]
        )

    def fail(self, what: str) -> NoReturn:
        raise InvariantError(f"{what}\n{self.story()}")

    # Faults.

    def disturbed(self) -> None:
        self.disturbed_at = self.now

    def fault_at(self, who: str, number: int) -> Fault | None:
        if self.healed:
            return None
        fault = self.schedule.at_effect(who, number, self.random)
        if fault is None:
            return None
        if fault.kind != "raise" or fault.when == "late" or fault.error is not Interrupted:
            self.disturbed()
            self.timeline.after(fault.seconds, self.disturbed)
        return fault

    def _plan_next(self) -> None:
        drawn = self.schedule.next_timed(self.random)
        if drawn is None:
            return

        def happen() -> None:
            if not self.healed:
                self._strike(drawn[1])
                self._plan_next()

        self.timeline.after(drawn[0], happen)

    def _strike(self, fault: Fault) -> None:
        alive = [client for client in self.clients if not client.crashed]
        network, seconds = self.network, fault.seconds
        self.disturbed()
        self.timeline.after(seconds, self.disturbed)
        match fault.kind:
            case "crash" if alive:
                self.random.choice(alive).crash()
            case "pause" if alive:
                self.random.choice(alive).pause(seconds)
            case "deafen" if alive:
                self.random.choice(alive).subscriber.cut(seconds)
            case "outage":
                network.go_down(seconds)
            case "lose messages":
                network.lossy_until = self.now + seconds
            case "delay messages":
                network.dilatory_until = self.now + seconds
                self.timeline.after(seconds + 2, self.disturbed)
            case "restart":
                self.judge.lost_on_server(lambda hold: True)
                network.restart()
            case "force release" if self.locks or self.others:
                keys = self.random.choice([*[(key,) for key in self.locks], *self.others])
                self.judge.lost_on_server(lambda hold: hold.lock.key in keys)
                network.remove(*keys)
            case "failover":
                self._fail_over(min(seconds, 0.05))
            case _:
                pass

    def _fail_over(self, lag: float) -> None:
        """In *lag* seconds go on with what the server has now, and with another clock.

        Not just after another failover: what was sent again because of that is lost if this one
        loses it, too. These are two accidents.
        """
        if self.now < self._failed_over_at + RESENT:
            return
        network, server = self.network, self.network.server
        kept: Any = copy.deepcopy(server._keyspace)
        former, restore = server._now, self.judge.watcher.remember()

        def happen() -> None:
            if self.healed:
                return
            skew = self.random.uniform(-SKEW, SKEW)
            server._now = Clock(self.timeline, EPOCH + skew, 0.0)
            shift = round(1000 * (server._now() - former()))
            for entry in dict(kept.items()).values():
                if entry.expires is not None:
                    entry.expires += shift
            server.replace(kept)
            network.generation += 1
            self._failed_over_at = self.now
            self.timeline.note("server", f"is another one, {lag:.4f} s behind")
            for client in self.clients:
                client.missed = not client.subscriber.listens
            network.drop_subscribers()
            network.broken = {who for client in self.clients for who in client.senders()}
            there = network.view()

            def lost(hold: Hold) -> bool:
                """Return whether the server has lost *hold*, or the last renewal of its lease."""
                left = self.judge.left(hold, there)
                return left is None or hold.valid_until > hold.lock.session.clock() + left

            self.judge.lost_on_server(lost)
            restore()
            self.judge.failed_over()
            self.disturbed()

        self.timeline.after(lag, happen)
