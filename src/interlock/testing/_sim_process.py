"""A process of a simulated client: an owner of locks, and what its program can ask for."""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any, TypeAlias

from interlock._core.effects import NEVER, Op, Step, Wait
from interlock._core.holds import Owner, State
from interlock._core.lock import Lock
from interlock.testing._sim_runner import Runner

if TYPE_CHECKING:
    from random import Random

    from interlock._core.holds import Hold
    from interlock._core.lock_base import LockBase
    from interlock.testing._sim_client import SimulatedClient

Program: TypeAlias = Callable[["Process"], Generator[Op[Any], Any, object]]
"""What a process does: a generator function that yields operations and is sent their results."""


class Process(Runner):
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
        """Return the operation that acquires *lock*; its result is the hold, or None when *timeout* came first.

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
        """Return whether this process has acquired *lock* and neither released nor lost it, as far as it knows."""
        hold = self.client.session.holds.get(lock.hold_key, self.owner)
        return hold is not None and hold.depth > 0 and hold.state in (State.HELD, State.ENDING)

    def release(self, lock: LockBase) -> Step[None]:
        """Return the operation that goes down by one depth in *lock*."""
        options = self.client.session.options
        self._expect_end(self.client.clock() + options.outage_timeout + 2 * options.command_timeout)
        return lock.release(self.owner)

    def extend(self, lock: LockBase, lease: float) -> Op[None]:
        """Return the operation that has *lock* for at least *lease* seconds from now."""
        self.client.note_use(lock, lease)
        return lock.extend(self.owner, lease)

    def sleep(self, seconds: float) -> Op[None]:
        """Return the operation that does nothing for *seconds*."""
        self._nap = self._sleep_until(self.client.clock() + seconds)
        return self._nap

    def _sleep_until(self, when: float) -> Op[None]:
        yield from Wait(None, when)

    def _expect_end(self, due_by: float) -> None:
        policy = self.client.session.replicas
        self._began = self.client.now
        self._due_by = due_by + (0 if policy is None else policy.timeout)
