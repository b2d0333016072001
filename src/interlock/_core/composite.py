"""What multi lock and red lock have in common: several locks that are held as one.

Theory. Members are lock-likes of any clients. There is no state besides theirs: an owner has the
composite lock when enough members have a hold of that owner's, each of which is renewed by its
own client. What one try took is therefore read off the members' tables, and an interruption
between any two steps leaves nothing that is not found.

Rules:

* All but acquiring happens everywhere at once. A member that fails never stops the others.
* *Spare* members may be missing. What cannot be answered without asking more of them is an error,
  never a guess.

Source: RedissonMultiLock, Redisson 4.7.0.
"""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from interlock._core.composite_hold import CompositeHold
from interlock._core.composite_members import CompositeMembers, depths
from interlock._core.effects import Wait, Whole, undoing
from interlock._core.holds import State
from interlock._core.lock_base import not_acquired, not_held
from interlock._core.lockstep import lockstep
from interlock._core.scripts.lock import LockStatus
from interlock._core.session import GRACE
from interlock.errors import HoldLostError, InterlockError
from interlock.options import check_lease

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.effects import Op, Step
    from interlock._core.holds import Hold, Owner
    from interlock.errors import AcquireTimeoutError

LONGEST_PAUSE = 0.1
"""Seconds between two tries of those who got in each other's way, at the longest."""


@dataclass(slots=True)
class Claim:
    """One acquire.

    Attributes:
        owner: who wants it.
        deadline: until when; one that has passed means one try.
        lease: seconds, or None for holds that are renewed.
        hold: what the owner has already, unless that is lost.
        former: how deep the owner held each member before.
    """

    owner: Owner
    deadline: float
    lease: float | None
    hold: CompositeHold | None
    former: list[int]


class CompositeLock(CompositeMembers):
    """The operations of several locks as one; immutable, holds no state of its own."""

    composite: Literal[True] = True

    @abstractmethod
    def _obtain(self, claim: Claim) -> Op[CompositeHold | None]:
        """Acquire as `acquire` does, for an owner without a lost hold.

        None when nothing was taken.
        """
        ...

    @abstractmethod
    def _unavailable(self, failures: dict[str, InterlockError]) -> InterlockError:
        """Return the error for *failures*, told by member, without which there are not enough members."""
        ...

    # What the faces call.

    def acquire(
        self, owner: Owner, deadline: float, lease: float | None
    ) -> Step[CompositeHold | None]:
        """Acquire for *owner*, waiting until *deadline*.

        Args:
            owner: who will hold it.
            deadline: on the clock that all members' clients share; one that has passed means one
                try.
            lease: seconds, or None for holds that are renewed.

        Returns:
            The hold, or None when *deadline* came first; then nothing is held.

        Raises:
            ReentryError: a member is not reentrant and *owner* holds it.
            HoldLostError: a re-entry found that the hold is lost.
            ServerUnavailableError: of a multi lock: a server gave no usable answer in time; what
                was taken is given back.
            QuorumError: of a red lock: so many servers cannot be reached that there is no quorum.
        """
        return Whole(self._acquire(owner, deadline, lease))

    def _acquire(
        self, owner: Owner, deadline: float, lease: float | None
    ) -> Op[CompositeHold | None]:
        lease = None if lease is None else check_lease(lease)
        holds = self._holds(owner)
        hold = self._made_of(holds)
        if hold is not None and hold.lost(self._session.clock()):
            if any(member.inside() and not member.ran_out() for member in hold.members):
                # The owner must hear of the loss; it releases the lost hold before it acquires
                # another.
                raise self._lost(hold)
            # What is left of it would be entered again, and what is lost acquired anew: their
            # depths would differ.
            yield from self._end(hold)
            hold, holds = None, self._holds(owner)
        claim = Claim(owner, deadline, lease, hold, depths(holds))
        return (yield from undoing(self._obtain(claim), self._undo, claim))

    def refusal(self, timeout: float) -> Op[AcquireTimeoutError]:
        """Return the error for who did not get it in *timeout* seconds.

        One round trip asks who holds a member.
        """
        asking = [(member.session, member.status()) for member in self.members]
        answers = yield from lockstep(asking, GRACE / 2)
        known = [answer.holders for answer in answers if isinstance(answer, LockStatus)]
        holder = next((holder for holders in known for holder in holders), None)
        return not_acquired(self.kind, self.name, timeout, holder)

    def release(self, owner: Owner) -> Step[None]:
        """Go down by one depth in every member; errors as `release_hold`."""
        return Whole(self._release_own(owner), carried_through=True)

    def _release_own(self, owner: Owner) -> Op[None]:
        yield from self._release(self._mine(owner))

    def release_hold(self, hold: CompositeHold) -> Step[None]:
        """Go down by one depth in every member of *hold*, whoever asks.

        Raises:
            NotHeldError: it was released before.
            HoldLostError: fewer members than are needed were still held.
            ServerUnavailableError: so many servers gave no reply that others may still be kept
                out; the background goes on.

        Cost:
            One round trip to all servers at once.
        """
        return Whole(self._release(hold), carried_through=True)

    def _release(self, hold: CompositeHold) -> Op[None]:
        present = [member for member in hold.members if member.state is not State.ENDED]
        begun = any(member.state is State.ENDING for member in present)
        if len(present) < self.needed and not begun:
            raise not_held(self.kind, self.name, hold.label)
        outcomes = yield from self._release_all(present)
        if outcomes.count(None) == len(outcomes):
            return  # the rule; what follows is about failures
        lost = [outcome for outcome in outcomes if isinstance(outcome, HoldLostError)]
        if lost and len(outcomes) - len(lost) < self.needed:
            yield from self._end(hold)
            raise self._lost(hold, lost[0]) from lost[0]
        unreached = [
            outcome
            for member, outcome in zip(present, outcomes, strict=True)
            if member.state is State.ENDING and outcome is not None
        ]
        if len(unreached) > self.spare:
            raise unreached[0]
        self._forget(present)

    def extend(self, owner: Owner, lease: float) -> Op[None]:
        """Have at least *lease* seconds from now in enough members.

        Raises:
            NotHeldError: *owner* does not hold it.
            HoldLostError: fewer than are needed are still held.
            ServerUnavailableError: fewer than are needed answered.

        Cost:
            One round trip to all servers at once.
        """
        hold = self._mine(owner)
        if hold.state is State.ENDED:
            raise not_held(self.kind, self.name, owner.label)
        failure = yield from self._extend(owner, check_lease(lease))
        if isinstance(failure, HoldLostError):
            # Who asked for a lost member to be extended has it no more; so it goes with the others.
            yield from self._end(hold)
            raise self._lost(hold, failure) from failure
        if failure is not None:
            raise failure

    def force_release(self) -> Op[bool]:
        """Free every member, whoever holds it; tell whether any was locked.

        Raises:
            InterlockError: more members than are spare could not be reached; the others were freed.

        Cost:
            One round trip to all servers at once.
        """
        outcomes = yield from self._all(lambda member: member.force_release())
        failures = self._failures(outcomes)
        if len(failures) > self.spare:
            raise self._unavailable(failures)
        return any(outcome is True for outcome in outcomes)

    def status(self) -> Op[LockStatus]:
        """Ask all members; locked when so many are that it cannot be acquired, for as long as that.

        Raises:
            InterlockError: that depends on members that could not be reached.

        Cost:
            One round trip to all servers at once.
        """
        outcomes = yield from self._all(lambda member: member.status())
        failures = self._failures(outcomes)
        known = [outcome for outcome in outcomes if isinstance(outcome, LockStatus)]
        remaining = [status.remaining for status in known if status.remaining is not None]
        if len(remaining) <= self.spare:
            if len(remaining) + len(failures) > self.spare:
                raise self._unavailable(failures)
            return LockStatus(None, {})
        return LockStatus(sorted(remaining, reverse=True)[self.spare], {})

    def depth_of(self, owner: Owner) -> Op[int]:
        """Return how deep *owner* holds as many members as are needed.

        0 without a round trip if not, or if the servers know nothing of it.

        Raises:
            InterlockError: more members than are spare could not be reached.
        """
        if self.hold_of(owner) is None:
            return 0
        outcomes = yield from self._all(lambda member: member.depth_of(owner))
        failures = self._failures(outcomes)
        if len(failures) > self.spare:
            raise self._unavailable(failures)
        # How deep is known here, and whether at all by the servers; one that is away for a moment
        # still has what is valid.
        now = self._session.clock()
        known = [
            hold.depth if hold and hold.valid(now) and outcome != 0 else 0
            for outcome, hold in zip(outcomes, self._holds(owner), strict=True)
        ]
        return sorted(known, reverse=True)[self.needed - 1]

    def hold_of(self, owner: Owner) -> CompositeHold | None:
        """Return *owner*'s hold, lost or just being released or not, as known locally."""
        return self._made_of(self._holds(owner))

    # How it is done.

    def _made_of(self, holds: Sequence[Hold | None]) -> CompositeHold | None:
        """Return the hold that *holds* of the members make, if they do."""
        held = [hold for hold in holds if hold is not None]
        if len(held) >= self.needed or any(hold.state is State.ENDING for hold in held):
            return CompositeHold(self, held)
        return None

    def _mine(self, owner: Owner) -> CompositeHold:
        hold = self.hold_of(owner)
        if hold is None:
            raise not_held(self.kind, self.name, owner.label)
        return hold

    def _extend(self, owner: Owner, lease: float) -> Op[InterlockError | None]:
        """Extend every member that *owner* holds.

        Return the most telling failure if those that are needed failed.
        """
        holding = [member for member in self.members if member.hold_of(owner) is not None]
        outcomes = yield from self._all(lambda member: member.extend(owner, lease), holding, lease)
        failures = [outcome for outcome in outcomes if outcome is not None]
        if len(outcomes) - len(failures) >= self.needed:
            return None
        lost = [failure for failure in failures if isinstance(failure, HoldLostError)]
        return next(iter(lost or failures), None)

    def _end(self, hold: CompositeHold) -> Op[None]:
        """Give back what is left of a lost hold, at all depths."""
        for _ in range(max(member.depth for member in hold.members)):
            _ = yield from self._release_all(hold.members)
        self._forget(hold.members)

    def _give_back(self, claim: Claim) -> Op[None]:
        """Go back to the former depths.

        What cannot be reached ends later, by the background or its lease.
        """
        taken = [
            hold
            for hold, depth in zip(self._holds(claim.owner), claim.former, strict=True)
            if hold and hold.state in (State.HELD, State.LOST) and hold.depth > depth
        ]
        # A release that fails has left the rest to the background; the try failed for its own
        # reason.
        _ = yield from self._release_all(taken)
        self._forget(taken)

    def _undo(self, claim: Claim, error: BaseException) -> Op[None]:
        del error
        yield from self._give_back(claim)

    def _lost(self, hold: CompositeHold, first: HoldLostError | None = None) -> HoldLostError:
        reason = hold.reason or hold.expiry_reason()
        return HoldLostError(
            f"{self.kind} {self.name!r} was lost: {first or reason}", name=self.name, reason=reason
        )

    def _pause(self, deadline: float) -> Op[None]:
        """Wait so long that those who got in each other's way come one after the other."""
        session = self._session
        until = session.clock() + LONGEST_PAUSE * (0.1 + 0.9 * session.random())
        yield from Wait(None, min(deadline, until))
