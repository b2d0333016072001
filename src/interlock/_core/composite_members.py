"""Several locks at once.

Which they are, what an owner has of them, and one operation of each at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from interlock._core.effects import undoing
from interlock._core.holds import State
from interlock._core.lockstep import lockstep
from interlock.errors import (
    ConfigError,
    HoldLostError,
    InterlockError,
    ReplicationError,
    ServerUnavailableError,
    WrongTypeError,
)

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.effects import Op, R, Step
    from interlock._core.holds import Hold, Owner
    from interlock._core.lock_base import LockBase


_FAILURES = (ServerUnavailableError, WrongTypeError, HoldLostError, ReplicationError)
"""What speaks of a server or of the hold there."""


class CompositeMembers(ABC):
    """Lock-likes of any clients, which are of one process and have one clock.

    Args:
        members: the locks.
        needed: how many of them make a hold.

    Attributes:
        members: the locks, in the order in which they are taken.
        name: the names of all, each once.
        needed: how many members make a hold.
        spare: how many may be missing.

    Raises:
        ConfigError: none, or one of them twice.
    """

    kind: str

    def __init__(self, members: Sequence[LockBase], needed: int) -> None:
        if not members:
            raise ConfigError(f"a {self.kind} needs members")
        self.members = sorted(members, key=lambda member: member.place)
        for one, other in zip(self.members, self.members[1:], strict=False):
            # Kinds that share a key exclude each other, or are different views of one lock.
            if one.place[:2] == other.place[:2]:
                raise ConfigError(f"{one.kind} {one.name!r} is a member twice")
        self.name = " + ".join(dict.fromkeys(member.name for member in self.members))
        self.needed = needed
        self.spare = len(self.members) - needed
        self._session = self.members[0].session

    @abstractmethod
    def _patience(self, lease: float | None = None) -> float | None:
        """Return the seconds for which a server is waited for; None: an outage is sat out."""
        ...

    def _holds(self, owner: Owner) -> list[Hold | None]:
        """Return what *owner* has of each member, lost or not."""
        return [member.hold_of(owner) for member in self.members]

    def _all(
        self,
        op: Callable[[LockBase], Op[R] | Step[R]],
        members: Sequence[LockBase] | None = None,
        lease: float | None = None,
    ) -> Op[list[R | InterlockError]]:
        """Run *op* of each of *members* (None: of all) at once."""
        chosen = self.members if members is None else members
        return lockstep([(m.session, op(m)) for m in chosen], self._patience(lease))

    def _release_all(self, holds: Sequence[Hold]) -> Op[list[InterlockError | None]]:
        """Go down by one depth in each of *holds*.

        One that cannot be reached does so all the same, as far as is known here.
        """
        outcomes = yield from undoing(
            self._release_each(holds), self._release_rest, holds, [hold.depth for hold in holds]
        )
        for hold, outcome in zip(holds, outcomes, strict=True):
            if hold.state is State.HELD and outcome is not None:
                # Depths are told absolutely: the server learns of this one later, or need not.
                _ = hold.leave()
        return outcomes

    def _release_each(self, holds: Sequence[Hold]) -> Op[list[InterlockError | None]]:
        releases = [(hold.core.session, hold.release()) for hold in holds]
        return lockstep(releases, self._patience())

    def _release_rest(
        self, holds: Sequence[Hold], former: Sequence[int], error: BaseException
    ) -> Op[None]:
        """Go down in those of *holds* too whose release had not begun yet when *error* struck the others'."""
        del error
        rest = [
            hold
            for hold, depth in zip(holds, former, strict=True)
            if hold.state is State.HELD and hold.depth == depth
        ]
        _ = yield from self._release_each(rest)

    @staticmethod
    def _forget(holds: Sequence[Hold]) -> None:
        """Have it over for the owner with those of *holds* whose release only the background goes on with."""
        for hold in holds:
            if hold.state is State.ENDING:
                hold.core.session.holds.end(hold)

    def _failures(
        self, outcomes: Sequence[object], members: Sequence[LockBase] | None = None
    ) -> dict[str, InterlockError]:
        """Return what failed with a server or the hold there, by member and server.

        Raise what is the caller's own mistake.
        """
        chosen = self.members if members is None else members
        failures: dict[str, InterlockError] = {}
        for member, outcome in zip(chosen, outcomes, strict=True):
            if isinstance(outcome, _FAILURES):
                failures[f"{member.name} at {member.session.where}"] = outcome
            elif isinstance(outcome, InterlockError):
                raise outcome
        return failures


def depths(holds: Sequence[Hold | None]) -> list[int]:
    """Return how deep each of *holds* was entered, as known locally, be it lost or not."""
    entered = (State.HELD, State.LOST)
    return [hold.depth if hold and hold.state in entered else 0 for hold in holds]
