"""Several locks held as one: all of them (`MultiLock`) or a quorum of independent servers' (`RedLock`).

Members are lock-likes of any clients. Each member's hold is renewed by its own client; what is held together is a `JointHold`, which is
valid while enough of its members are.

A multi lock takes its members one after the other in one canonical order, so that two that share members cannot wait for
each other in a ring. Others may take them in another order (Redisson does as it is told): so a member that does not come within a
budget makes it give everything back and start again after a random pause.

A red lock asks all servers at once. Fewer than a quorum means giving back everywhere, including where no reply was read.

Source: RedissonMultiLock and RedissonRedLock, Redisson 4.7.0 (redisson-wire 7, 18.14); antirez, "Distributed Locks with Redis"; hazards R-26, R-27.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from interlock._core import releasing
from interlock._core.effects import Away, Wait, undoing
from interlock._core.joint_hold import JointHold
from interlock._core.scripts.lock import LockStatus
from interlock._core.together import together
from interlock.errors import (
    AcquireTimeoutError,
    ConfigError,
    HoldLostError,
    InterlockError,
    NotHeldError,
    ServerUnavailableError,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.effects import Op
    from interlock._core.holds import Hold, Owner
    from interlock._core.lock_like import LockLike

MEMBER_BUDGET = 1.5
"""Seconds that each member may add to one try of a multi lock."""
LONGEST_PAUSE = 0.1
"""Seconds between two tries, at the longest."""


class Joint(ABC):
    """The operations of several locks as one.

    Args:
        members: the locks.

    Raises:
        ConfigError: none, or one of them twice.
    """

    kind: str

    def __init__(self, members: Sequence[LockLike]) -> None:
        if not members:
            raise ConfigError(f"a {self.kind} needs members")
        self.members = sorted(members, key=lambda member: member.place)
        for one, other in zip(self.members, self.members[1:], strict=False):
            if one.place == other.place:
                raise ConfigError(f"{one.kind} {one.name!r} is a member twice")
        self.name = " + ".join(member.name for member in self.members)
        self.needed = len(self.members)
        self._session = self.members[0].session

    @abstractmethod
    def acquire(self, owner: Owner, deadline: float, lease: float | None) -> Op[JointHold | None]:
        """Acquire for *owner*, waiting until *deadline*; None when that came first."""

    def acquire_or_raise(
        self, owner: Owner, deadline: float, timeout: float, lease: float | None
    ) -> Op[JointHold]:
        """Acquire as `acquire` does, or raise AcquireTimeoutError."""
        hold = yield from self.acquire(owner, deadline, lease)
        if hold is None:
            raise AcquireTimeoutError(
                f"{self.kind} {self.name!r} not acquired in {timeout:g} s",
                name=self.name,
                timeout=timeout,
            )
        return hold

    def release(self, owner: Owner) -> Op[None]:
        """Go down by one depth in every member; errors as `release_hold`."""
        hold = self.hold_of(owner)
        if hold is None:
            raise releasing.not_held(self.kind, self.name, owner.label)
        yield from self.release_hold(hold)

    def release_hold(self, hold: JointHold) -> Op[None]:
        """Go down by one depth in every member of *hold*, whoever asks; one that fails does not stop the others.

        Raises:
            NotHeldError: it was released before.
            HoldLostError: fewer than are needed were still held.
            ServerUnavailableError: a server that is needed gave no reply; what is held there ends with its lease.
        """
        outcomes = yield from together(
            [
                (member.recipe.session, releasing.release(member.recipe.session, member))
                for member in hold.members
            ]
        )
        self._judge(outcomes)

    def _judge(self, outcomes: Sequence[InterlockError | None]) -> None:
        """Raise the most telling failure if fewer than are needed succeeded."""
        failures = [outcome for outcome in outcomes if outcome is not None]
        if len(outcomes) - len(failures) >= self.needed:
            return
        for kind in (HoldLostError, ServerUnavailableError, NotHeldError):
            for failure in failures:
                if isinstance(failure, kind):
                    raise failure
        raise failures[0]

    def extend(self, owner: Owner, lease: float) -> Op[None]:
        """Have at least *lease* seconds from now in every member.

        Raises:
            NotHeldError: *owner* does not hold it.
            HoldLostError: fewer than are needed are still held.
        """
        hold = self.hold_of(owner)
        if hold is None:
            raise releasing.not_held(self.kind, self.name, owner.label)
        yield from self._extend(hold, lease)

    def _extend(self, hold: JointHold, lease: float) -> Op[None]:
        outcomes = yield from together(
            [
                (member.recipe.session, releasing.extend(member.recipe.session, member, lease))
                for member in hold.members
            ]
        )
        self._judge(outcomes)

    def force_release(self) -> Op[bool]:
        """Free every member, whoever holds it; tell whether any was locked."""
        released = False
        for member in self.members:
            one = yield from Away(member.session, member.force_release())
            released = released or one
        return released

    def status(self) -> Op[LockStatus]:
        """Ask the members; locked when as many as are needed are, for as long as those."""
        remaining: list[float] = []
        for member in self.members:
            status = yield from Away(member.session, member.status())
            if status.remaining is not None:
                remaining.append(status.remaining)
        remaining.sort(reverse=True)
        locked = len(remaining) >= self.needed
        return LockStatus(remaining[self.needed - 1] if locked else None, {})

    def depth_of(self, owner: Owner) -> Op[int]:
        """Return how deep *owner* holds as many members as are needed."""
        depths: list[int] = []
        for member in self.members:
            depth = yield from Away(member.session, member.depth_of(owner))
            depths += [depth]
        return sorted(depths, reverse=True)[self.needed - 1]

    def hold_of(self, owner: Owner) -> JointHold | None:
        """Return *owner*'s hold, lost or not, as known locally."""
        held = [hold for member in self.members if (hold := member.hold_of(owner)) is not None]
        return JointHold(self, held) if len(held) >= self.needed else None

    def _give_back(self, held: Sequence[Hold]) -> Op[None]:
        """Release what one try took; what cannot be reached ends later, by the background or its lease."""
        # A release that fails has left the rest to the background; the try failed for its own reason.
        _ = yield from together(
            [(hold.recipe.session, releasing.release(hold.recipe.session, hold)) for hold in held]
        )

    def _pause(self, deadline: float) -> Op[None]:
        session = self._session
        until = session.clock() + LONGEST_PAUSE * (0.1 + 0.9 * session.random())
        yield from Wait(None, min(deadline, until))


class MultiLock(Joint):
    """All members or none."""

    kind = "multi lock"

    def acquire(self, owner: Owner, deadline: float, lease: float | None) -> Op[JointHold | None]:
        """Acquire every member in canonical order.

        Returns:
            The hold, or None when *deadline* came first; then nothing is held.

        Raises:
            ServerUnavailableError: a member's server gave no usable answer; what was taken is given back.

        Cost:
            One round trip a member, and one more each with a *lease* of its own.
        """
        clock = self._session.clock
        while True:
            budget = MEMBER_BUDGET * len(self.members) * (0.75 + self._session.random() / 2)
            held: list[Hold] = []
            done = yield from undoing(
                self._collect(owner, held, min(deadline, clock() + budget), lease),
                self._undo,
                held,
            )
            if done:
                return JointHold(self, held)
            yield from self._give_back(held)
            if clock() >= deadline:
                return None
            yield from self._pause(deadline)

    def _collect(
        self, owner: Owner, held: list[Hold], deadline: float, lease: float | None
    ) -> Op[bool]:
        for member in self.members:
            hold = yield from Away(member.session, member.acquire(owner, deadline, lease))
            if hold is None:
                return False
            held.append(hold)
        if lease is not None and len(held) > 1:
            # Those that came first have lost some of their lease to the wait for the last.
            yield from self._extend(JointHold(self, held), lease)
        return all(hold.valid(self._session.clock()) for hold in held)

    def _undo(self, held: list[Hold], error: BaseException) -> Op[None]:
        del error
        yield from self._give_back(held)
