"""A simulated client: an operating system process with a clock, a session, a renewal thread and any number of processes."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

from interlock._core.cleanup import CleanupQueue
from interlock._core.effects import NEVER, Op, Wait
from interlock._core.session import Session
from interlock._core.waiter import Waiter
from interlock._core.waiters import Waiters
from interlock.testing._sim_network import DRIFT
from interlock.testing._sim_process import Process
from interlock.testing._sim_pubsub import Subscriber
from interlock.testing._sim_runner import Runner
from interlock.testing._sim_time import IDLE, Clock, Idle

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from typing import Any

    from interlock._core.effects import Cleanup, Eval
    from interlock._core.lock_base import LockBase
    from interlock._core.watchdog import Round
    from interlock.errors import ServerUnavailableError
    from interlock.options import Options
    from interlock.testing._sim_network import Exchange, Network
    from interlock.testing._sim_process import Program
    from interlock.testing._sim_time import Action
    from interlock.testing.schedule import Fault
    from interlock.testing.simulator import Simulator

RESUMING_TAKES = 0.001
"""Seconds, at most, in which all that waited for a paused client reaches it."""


class SimulatedClient:
    """One client; made by `Simulator.client`.

    Attributes:
        name: ``"a"``, ``"b"`` and so on.
        network: the server that it uses, and the way to it.
        random: the run's source of randomness.
        clock: what its operations see of time.
        session: the state that its operations share.
        processes: all that were started in it.
        reported: what `on_lost` callbacks raised.
        crashed: whether it is gone.
        cleanups: what the background still has to bring to the server.
        settled: all that it ever had to.
    """

    def __init__(
        self,
        simulator: Simulator,
        network: Network,
        name: str,
        client_id: str,
        options: Options,
    ) -> None:
        self.name = name
        self.network = network
        self._simulator = simulator
        self._timeline = timeline = simulator.timeline
        self.random = timeline.random
        drift = timeline.random.uniform(-DRIFT, DRIFT)
        self.clock = Clock(timeline, timeline.random.uniform(0, 1e6), drift)
        self._subscriber = Subscriber(network, self.at)
        waiters = self._subscriber.waiters = Waiters(nullcontext(), self._subscriber)
        self.session: Session = Session(
            options=options,
            client_id=client_id,
            clock=self.clock,
            random=self.random.random,
            waiters=waiters,
            wake=self._wake,
            call_user=self._call_user,
            where=network.where,
            home=self,
        )
        self.processes: list[Process] = []
        self.reported: list[Exception] = []
        self.crashed = False
        self.cleanups = CleanupQueue()
        self.settled: list[Cleanup[object]] = []
        self._paused_until = 0.0
        self._bell = Waiter("", self._wake)
        self._keeper = Runner(self, f"{name}.keeper", quiet=True)
        self._keeper.expect(self._bell)
        self._keeper.start(self._keep())

    def __repr__(self) -> str:
        return f"<SimulatedClient {self.name}{' crashed' if self.crashed else ''}>"

    def spawn(self, program: Program, name: str | None = None) -> Process:
        """Start *program* as a process of this client."""
        process = Process(self, program, name or f"{self.name}.{len(self.processes) + 1}")
        self.processes.append(process)
        return process

    # What can happen to it.

    def crash(self) -> None:
        """Vanish, with all processes and without a word; nothing is renewed any more."""
        self.note(self.name, "crashes")
        self.crashed = True
        self._subscriber.close()
        for process in (*self.processes, self._keeper):
            process.kill()

    def pause(self, seconds: float) -> None:
        """Stand still for *seconds*; what happens meanwhile reaches it afterwards, in whatever order."""
        self.note(self.name, f"is paused for {seconds:.4f} s")
        self._paused_until = max(self._paused_until, self._timeline.now + seconds)
        self._simulator.disturbed()

    def deafen(self, seconds: float) -> None:
        """Lose the subscriber connection for *seconds*."""
        self.note(self.name, f"is deaf for {seconds:.4f} s")
        self._subscriber.cut(seconds)

    def resume(self) -> None:
        """Run on, and be able to hear again."""
        self._paused_until = min(self._paused_until, self._timeline.now)
        self._subscriber.heal()

    @property
    def now(self) -> float:
        """True time."""
        return self._timeline.now

    @property
    def paused(self) -> bool:
        """Whether it stands still now."""
        return self._timeline.now < self._paused_until

    # What its processes need of it.

    def at(self, when: float, action: Action) -> None:
        """Have this client do *action* at *when*, unless it is paused or gone then."""

        def act() -> Idle | None:
            if self.paused:
                self.at(self._paused_until + self.random.random() * RESUMING_TAKES, action)
            elif not self.crashed:
                return action()
            return IDLE

        self._timeline.at(when, act)

    def after(self, seconds: float, action: Action) -> None:
        """Have this client do *action* in *seconds*."""
        self.at(self._timeline.now + seconds, action)

    def note(self, who: str, what: str) -> None:
        """Remember for the trace that *who* did *what*."""
        self._timeline.note(who, what)

    def note_use(self, lock: LockBase, lease: float | None) -> None:
        """Remember that *lock* is used, so that the invariants look at it."""
        self._simulator.note_use(lock, lease or self.session.options.lease)

    def fault_at(self, runner: Runner, number: int) -> Fault | None:
        """Return what befalls effect *number* of *runner*."""
        fault = self._simulator.fault_at(runner, number)
        if runner is self._keeper and fault is not None and fault.kind in ("raise", "abandon"):
            return None  # nobody interrupts the renewal thread
        return fault

    def patience(self, runner: Runner) -> float:
        """Return for how long *runner* waits for one reply."""
        timeout = self.session.options.command_timeout
        if runner is self._keeper:
            return min(timeout, self.session.watchdog.period / 2)
        return timeout

    def exchange(
        self,
        calls: Sequence[Eval[object]],
        timeout: float,
        answer: Callable[[list[object] | ServerUnavailableError], None],
        who: str,
        fault: Fault | None,
    ) -> Exchange:
        """Send *calls* to the server."""
        if who == self._keeper.name:
            self.after(0, self._look_up)
        return self.network.exchange(calls, timeout, answer, who, fault)

    def ended(self, runner: Runner) -> None:
        """Have it looked at how *runner* ended."""
        self._simulator.ended(runner)

    def blur(self, keys: Sequence[str]) -> None:
        """Have no depths compared under *keys* for a while: what decides them may arrive in any order."""
        self._simulator.doubts.blur(self.network, keys)

    def check_bound(self, runner: Runner, began: float, due_by: float) -> None:
        """Have it checked that an operation of *runner* ended in time, unless the client stood still meanwhile."""
        if began > self._paused_until + RESUMING_TAKES:
            self._simulator.check_bound(runner, self.clock() - due_by)

    def clean_up(self, effect: Cleanup[object]) -> None:
        """Have the background bring *effect* to the server, in a race with what the caller asks for next."""
        self.blur(effect.call.keys)
        self.cleanups.add(effect, self.clock())
        self.settled.append(effect)
        self._wake()

    # The renewal thread, as `interlock._drivers.keeper` has it.

    def _wake(self) -> None:
        self._keeper.ring(self._bell)

    def _call_user(self, callback: Callable[[], object]) -> None:
        try:
            _ = callback()
        except Exception as error:  # noqa: BLE001 - the user's callback; the others come next
            self.reported.append(error)

    def _keep(self) -> Generator[Op[Any], Any, None]:
        watchdog = self.session.watchdog
        while True:
            due = watchdog.next_due(self.clock())
            yield self._idle(min(due, self.cleanups.next_due()))
            result: Round = yield watchdog.run(self.clock)
            if result.renewed or result.failures:
                self.note(self.name, f"renews {result.renewed}; failures: {result.failures}")
            for hold in result.abandoned:
                self.note(self.name, f"does not renew {hold!r} any more")
            yield self.cleanups.run(self.clock)

    def _look_up(self) -> None:
        """While the renewal thread waits for a reply, see to it that losses are told in time."""
        if self._keeper.asking:
            soonest = self.session.watchdog.end_overdue(self.clock())
            if soonest != NEVER:
                self.at(self.clock.when(soonest), self._look_up)

    def _idle(self, until: float) -> Op[None]:
        yield from Wait(self._bell, until)
