"""What is held of several locks together: valid while enough of the members are."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from interlock._core.holds import State

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from interlock._core.effects import Step
    from interlock._core.holds import Hold
    from interlock.errors import LossReason


class CompositeCore(Protocol):
    """The locks of a composite hold, as it sees them.

    Attributes:
        kind: what they are together.
        name: what they are called together.
        needed: how many of them make the hold.
    """

    kind: str
    name: str
    needed: int

    def release_hold(self, hold: CompositeHold) -> Step[None]:
        """Go down by one depth in every member of *hold*."""
        ...


class CompositeHold:
    """One owner's possession of several names; answers what a `Hold` answers.

    All that it knows is what its members know, each of which is renewed, and may be lost, on its
    own.

    Attributes:
        core: the locks.
        members: a hold of each member that was taken.
        token: None; tokens belong to the members.
    """

    token: int | None = None
    owned = False

    def __init__(self, core: CompositeCore, members: Sequence[Hold]) -> None:
        self.core = core
        self.members = list(members)
        self.name = core.name
        self.holder = members[0].holder
        self.label = members[0].label

    def __repr__(self) -> str:
        return f"<CompositeHold {self.name!r} of {len(self.members)}, {self.core.needed} needed>"

    def __eq__(self, other: object) -> bool:
        """Return whether *other* is the same possession, looked up at another time."""
        if not isinstance(other, CompositeHold):
            return NotImplemented
        return self.core is other.core and self.members == other.members

    def __hash__(self) -> int:
        return hash((self.core, *self.members))

    def _enough(self, values: Sequence[float]) -> float:
        """Return what as many members as are needed have at least."""
        ordered = sorted(values, reverse=True)
        return ordered[self.core.needed - 1] if len(ordered) >= self.core.needed else 0

    @property
    def replicas(self) -> int | None:
        """Return how many replicas the least replicated member had.

        None when none was asked about.
        """
        known = [hold.replicas for hold in self.members if hold.replicas is not None]
        return min(known, default=None)

    @property
    def depth(self) -> int:
        """Return how often as many members as are needed were entered."""
        return int(self._enough([hold.depth for hold in self.members if hold.state is State.HELD]))

    @property
    def valid_until(self) -> float:
        """Return the time until which enough members are valid."""
        return self._enough([hold.valid_until for hold in self.members if hold.state is State.HELD])

    @property
    def state(self) -> str:
        """Return LOST, HELD or ENDED."""
        states = [hold.state for hold in self.members]
        if states.count(State.HELD) >= self.core.needed:
            return State.HELD
        return State.LOST if State.LOST in states else State.ENDED

    @property
    def reason(self) -> LossReason | None:
        """Return why a member was lost."""
        return next((hold.reason for hold in self.members if hold.reason is not None), None)

    def expiry_reason(self) -> LossReason:
        """Return why it is lost if that is by the clock."""
        return self.members[0].expiry_reason()

    def valid(self, now: float) -> bool:
        """Return whether nobody else can hold as many members as are needed."""
        return sum(hold.valid(now) for hold in self.members) >= self.core.needed

    def lost(self, now: float) -> bool:
        """Return whether it ended without being released."""
        return self._too_few([hold.lost(now) for hold in self.members])

    def kept(self) -> bool:
        """Return whether its owner has not released it yet, be it lost or not."""
        return any(hold.kept() for hold in self.members)

    def hand(self, handle: Callable[[], object], *, alone: bool = True) -> None:
        """Keep every member as long as what *handle* refers to; arguments as for a `Hold`."""
        for hold in self.members:
            hold.hand(handle, alone=alone)

    def own(self) -> None:
        """Allow the owner to release every member, even if all that the user was given is gone."""
        for hold in self.members:
            hold.own()

    def release(self) -> Step[None]:
        """Go down by one depth in every member."""
        return self.core.release_hold(self)

    def listen(self, callback: Callable[[], object]) -> bool:
        """Tell *callback* once of a loss.

        False when it is lost already (and the caller must tell it).
        """
        listener = _Listener(self, callback)
        for hold in self.members:
            _ = hold.listen(listener)
        return not (self.is_lost() and listener.taken())

    def unlisten(self, callback: Callable[[], object]) -> None:
        """Tell *callback* no more of a loss."""
        for hold in self.members:
            hold.unlisten(_Listener(self, callback))

    def is_lost(self) -> bool:
        """Return whether it is known to be lost."""
        return self._too_few([hold.state is State.LOST for hold in self.members])

    def _too_few(self, gone: Sequence[bool]) -> bool:
        """Return whether those that are not *gone* are too few, because of those that are."""
        return any(gone) and gone.count(False) < self.core.needed


class _Listener:
    """Tells *callback* once, when *hold* is lost; is told of the loss of each member."""

    __slots__ = ("_callback", "_hold", "_untold")

    def __init__(self, hold: CompositeHold, callback: Callable[[], object]) -> None:
        self._hold = hold
        self._callback = callback
        self._untold = [callback]

    def __call__(self) -> None:
        if self._hold.is_lost() and self.taken():
            _ = self._callback()

    def __eq__(self, other: object) -> bool:
        """Return whether *other* tells the same callback."""
        return isinstance(other, _Listener) and self._callback == other._callback

    def __hash__(self) -> int:
        return hash(self._callback)

    def taken(self) -> bool:
        """Return whether the callback is still to be told, to one of several threads that may ask at once."""
        try:
            _ = self._untold.pop()
        except IndexError:
            return False
        return True
