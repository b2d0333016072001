"""A simulated client and its processes.

A client is an operating system process with a clock, a session and a renewal thread. A `Process` is
one of its threads or tasks: an owner of locks, with a program.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Generator
from contextlib import nullcontext
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from interlock._core.locks import transfer
from interlock._core.locks.lock import Lock
from interlock._core.model.effects import NEVER, Op, Step, Wait
from interlock._core.model.holds import ENDING, HELD, Owner
from interlock._core.queue.waiter import Waiter
from interlock._core.queue.waiters import Waiters
from interlock._core.upkeep.cleanup import CleanupQueue
from interlock._core.upkeep.session import Session
from interlock._core.upkeep.watchdog import Round
from tests.support.simulator.network import DRIFT
from tests.support.simulator.pubsub import Subscriber
from tests.support.simulator.runner import Runner
from tests.support.simulator.timeline import IDLE, Clock, Idle

if TYPE_CHECKING:
    from collections.abc import Sequence
    from random import Random

    from interlock._core.locks.lock_base import LockBase
    from interlock._core.model.effects import Cleanup, Eval
    from interlock._core.model.holds import Hold
    from interlock.errors import ServerUnavailableError
    from interlock.options import Options
    from tests.support.simulator.network import Doubted, Exchange, Network
    from tests.support.simulator.schedule import Fault
    from tests.support.simulator.timeline import Action, Timeline

RESUMING_TAKES = 0.001
"""Seconds, at most, in which all that waited for a paused client reaches it."""


class Overseer(Protocol):
    """The simulation, as a client sees it; `World` has the documentation."""

    timeline: Timeline

    @property
    def doubts(self) -> Doubted: ...
    def disturbed(self) -> None: ...
    def note_use(self, lock: LockBase, lease: float) -> None: ...
    def fault_at(self, runner: Runner[Any], number: int) -> Fault | None: ...
    def ended(self, runner: Runner[Any]) -> None: ...
    def check_bound(self, runner: Runner[Any], overdue: float) -> None: ...


Program: TypeAlias = Callable[["Process"], Generator[Op[Any], Any, object]]
"""What a process does: a generator function that yields operations and is sent their results."""


class Process(Runner["SimulatedClient"]):
    """A thread or task of a simulated client; made by `Simulator.spawn`.

    Its name is ``"<client>.<number>"`` unless one was given.

    Attributes:
        owner: whom the locks belong to that it acquires.
    """

    def __init__(self, client: SimulatedClient, program: Program, name: str) -> None:
        super().__init__(client, name)
        self.owner = Owner(f"process {name!r}", lambda: self.ended)
        self._nap: Op[None] | None = None
        self.start(program(self))

    @property
    def acting(self) -> bool:
        """Whether an operation other than `sleep` is under way."""
        return bool(self._frames) and self._frames[0].op is not self._nap

    @property
    def random(self) -> Random:
        """The run's source of randomness."""
        return self.client.random

    def lock(self, name: str, *, reentrant: bool = True) -> Lock:
        """Return the plain lock *name*."""
        return Lock(self.client.session, name, reentrant=reentrant)

    def acquire(
        self, lock: LockBase, timeout: float | None = None, *, lease: float | None = None
    ) -> Step[Hold | None]:
        """Return the operation that acquires *lock*.

        Its result is the hold, or None when *timeout* came first.

        Args:
            lock: of whatever kind.
            timeout: seconds to wait; None for ever, 0 for one try.
            lease: seconds; None for a hold that is renewed.
        """
        deadline = NEVER if timeout is None else self.client.clock() + timeout
        self.client.note_use(lock, lease)
        self._expect_end(deadline)
        return lock.acquire(self.owner, deadline, lease)

    def holds(self, lock: LockBase) -> bool:
        """Return whether this process holds *lock*, as far as it knows."""
        hold = self.client.session.holds.get(lock.hold_key, self.owner)
        return hold is not None and hold.depth > 0 and hold.state in (HELD, ENDING)

    def release(self, lock: LockBase) -> Step[None]:
        """Return the operation that goes down by one depth in *lock*."""
        options = self.client.session.options
        self._expect_end(self.client.clock() + options.outage_timeout + 2 * options.command_timeout)
        return lock.release(self.owner)

    def extend(self, lock: LockBase, lease: float) -> Step[None]:
        """Return the operation that has *lock* for at least *lease* seconds from now."""
        self.client.note_use(lock, lease)
        return lock.extend(self.owner, lease)

    def hand_over(self, lock: LockBase, lease: float) -> Op[transfer.Ticket]:
        """Return the operation that gives *lock* away for *lease* seconds."""
        self.note_use(lock, lease)
        return transfer.hand_over(lock.mine(self.owner), lease)

    def adopt(self, lock: Lock, ticket: transfer.Ticket) -> Op[Hold]:
        """Return the operation that takes *lock* over by *ticket*."""
        return iter(transfer.adopt(lock, self.owner, ticket.holder, ticket.token, None))

    def note_use(self, lock: LockBase, lease: float) -> None:
        """Remember that *lock* is used for *lease* seconds."""
        self.client.note_use(lock, lease)

    def pass_time(self, seconds: float) -> Op[None]:
        """Return the operation that does nothing for *seconds*, in virtual time."""
        self._nap = self._sleep_until(self.client.clock() + seconds)
        return self._nap

    def _sleep_until(self, when: float) -> Op[None]:
        yield from Wait(None, when)

    def _expect_end(self, due_by: float) -> None:
        policy = self.client.session.replicas
        self._began = self.client.now
        self._due_by = due_by + (0 if policy is None else policy.timeout)


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
        simulator: Overseer,
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
            home=weakref.ref(self),
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
        """Stand still for *seconds*; what happens meanwhile reaches it afterwards, in any order."""
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
        timeline = self._timeline

        def act() -> Idle | None:
            if timeline.now < self._paused_until:
                self.at(self._paused_until + self.random.random() * RESUMING_TAKES, action)
            elif not self.crashed:
                return action()
            return IDLE

        timeline.at(when, act)

    def after(self, seconds: float, action: Action) -> None:
        """Have this client do *action* in *seconds*."""
        self.at(self._timeline.now + seconds, action)

    def note(self, who: str, what: str) -> None:
        """Remember for the trace that *who* did *what*."""
        self._timeline.note(who, what)

    def note_use(self, lock: LockBase, lease: float | None) -> None:
        """Remember that *lock* is used, so that the invariants look at it."""
        self._simulator.note_use(lock, lease or self.session.options.lease)

    def fault_at(self, runner: Runner[Any], number: int) -> Fault | None:
        """Return what befalls effect *number* of *runner*."""
        fault = self._simulator.fault_at(runner, number)
        if runner is self._keeper and fault is not None and fault.kind in ("raise", "abandon"):
            return None  # nobody interrupts the renewal thread
        return fault

    def patience(self, runner: Runner[Any]) -> float:
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

    def ended(self, runner: Runner[Any]) -> None:
        """Raise the error that ended *runner*, unless any process may end by it."""
        self._simulator.ended(runner)

    def blur(self, keys: Sequence[str]) -> None:
        """Compare no depths under *keys* for a while: what decides them may arrive in any order."""
        self._simulator.doubts.blur(self.network, keys)

    def check_bound(self, runner: Runner[Any], began: float, due_by: float) -> None:
        """Check that an operation of *runner* ended in time, unless the client stood still."""
        if began > self._paused_until + RESUMING_TAKES:
            self._simulator.check_bound(runner, self.clock() - due_by)

    def clean_up(self, effect: Cleanup[object]) -> None:
        """Give *effect* to the background, in a race with the caller's next command."""
        self.blur(effect.call.keys)
        self.cleanups.add(effect, self.clock())
        self.settled.append(effect)
        self._wake()

    # The renewal thread: the parts that `interlock._drivers.background.renewer` composes, in the
    # same order.

    def _wake(self) -> None:
        self._keeper.ring(self._bell)

    def _call_user(self, callback: Callable[[], object]) -> None:
        try:
            _ = callback()
        except Exception as error:
            self.reported.append(error)

    def _keep(self) -> Generator[Op[Any], Any, None]:
        watchdog = self.session.watchdog
        while True:
            looks = self.session.looks
            others = min(self.cleanups.next_due(), looks.next_due())
            until = min(watchdog.next_due(self.clock()), others)
            while not (yield self._idle(until)):
                until = min(watchdog.rest(self.clock()), others)
                if until <= self.clock():
                    break
            result = Round()
            due, entries = watchdog.due(now := self.clock(), result), self.cleanups.take_due(now)
            yield watchdog.renew(due, self.clock, result)
            if result.renewed or result.failures:
                self.note(self.name, f"renews {result.renewed}; failures: {result.failures}")
            for hold in result.abandoned:
                self.note(self.name, f"does not renew {hold!r} any more")
            yield self.cleanups.carry(entries, self.clock)
            yield looks.look(looks.take_due(now), self.clock)

    def _look_up(self) -> None:
        """While the renewal thread waits for a reply, see to it that losses are told in time."""
        if self._keeper.asking:
            soonest = self.session.watchdog.end_overdue(self.clock())
            if soonest != NEVER:
                self.at(self.clock.when(soonest), self._look_up)

    def _idle(self, until: float) -> Op[bool]:
        return bool((yield Wait(self._bell, until)))
