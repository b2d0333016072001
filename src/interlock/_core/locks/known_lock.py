"""A lock as anybody may know it: who holds it, here and on the server, and the end by force.

Nothing in here acquires or releases a lock for its owner: that is `lock_base`.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, cast

from interlock._core.insight.forced_note import leave_note, leave_notes, take_note_back
from interlock._core.model.effects import NEVER
from interlock._core.model.holds import ENDED, HELD, PENDING, Hold, Owner, Renewal
from interlock._core.model.names import shares_channels
from interlock._core.upkeep.idempotency import break_once, once
from interlock._core.upkeep.session import GRACE, PROMPT
from interlock.errors import (
    AcquireTimeoutError,
    NotHeldError,
    ServerUnavailableError,
    WrongTypeError,
)
from interlock.options import check_flag, check_name

if TYPE_CHECKING:
    from collections.abc import Sequence

    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.holds import CoreLock
    from interlock._core.scripts.lock import LockStatus
    from interlock._core.scripts.script import Grant
    from interlock._core.upkeep.session import Session


class KnownLock(ABC):
    """One lock, which its owners and all others may ask about and free by force.

    Args:
        session: the client's state.
        name: what the user calls it.
        reentrant: whether its owner may take it again.

    Attributes:
        kind: what messages call it.
        renewal: returns the script that renews holds of this kind. It gets no more of a lock than
            its key: another key must be derived from that.
        hold_key: the key of its holds in the client's table.
        shared: whether several owners may hold it at a time. Then who got it wakes the next waiter,
            and the search for deadlocks leaves it out.
    """

    kind: str
    renewal: Renewal
    hold_key: object
    shared = False

    def __init__(self, session: Session, name: str, *, reentrant: bool = True) -> None:
        self.name = check_name(name)
        self.key = self._key_of(session.key(self.name))
        self.hold_key = self.key
        self._shares_channels = shares_channels(self.key)
        self.reentrant = check_flag(reentrant, "reentrant")
        self.session = session

    # What a kind of lock supplies.

    def _key_of(self, name: str) -> str:
        """Return the key of the lock that is called *name*, with the client's prefix."""
        return name

    @abstractmethod
    def acquire_script(
        self, hold: Hold, lease: float, depth: int, deadline: float
    ) -> Eval[Grant | float]:
        """Return the script that takes *hold* to *depth*.

        If another owner holds the lock, the script tells how long that owner may keep it. If a
        *depth* above 1 finds no hold to enter again, the script replies -2, and takes nothing.
        """
        ...

    def entry_script(
        self, hold: Hold, lease: float, depth: int, deadline: float
    ) -> Eval[Grant | float]:
        """Return the script that takes *hold* one deeper. It may be shared: do not change it."""
        call = self.acquire_script(hold, lease, depth, deadline)
        call.patient = True
        return call

    @abstractmethod
    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        """Return the script that takes *hold* down to *depth*.

        At 0 it frees the lock, and tells the waiters. It replies 0 or nil if the server does not
        have the hold, else 1. With a queue on the server there are two more: `NEXT_IS_OURS` and
        `GIVEN` (`queue/grant_looks.py`).
        """
        ...

    @abstractmethod
    def _force_release_script(self) -> Eval[bool]:
        """Return the script that frees the lock, no matter who holds it."""
        ...

    @abstractmethod
    def _query_script(self, deadline: float = NEVER) -> Eval[LockStatus]:
        """Return the script that tells who holds the lock."""
        ...

    # What is known here.

    @property
    def looked_at(self) -> object:
        """Return what a look asks about if a release told another client that it is next."""
        return self

    @property
    def sort_key(self) -> tuple[str, str, str]:
        """Return what tells this lock from all others; multi locks take locks in this order."""
        return (self.session.database, self.key, self.kind)

    def hold_of(self, owner: Owner) -> Hold | None:
        """Return *owner*'s hold as known locally, even if it is lost."""
        hold = self.session.holds.table.get((self.hold_key, owner.identity))
        return None if hold is None or hold.state in (PENDING, ENDED) else hold

    def mine(self, owner: Owner) -> Hold:
        """Return *owner*'s hold.

        Raises:
            NotHeldError: there is none.
        """
        hold = self.session.holds.get(self.hold_key, owner)
        if hold is None or hold.state is PENDING:
            raise not_held(self.kind, self.name, owner.label)
        return hold

    # What the server knows.

    def refusal(self, timeout: float) -> Op[AcquireTimeoutError]:
        """Return the error for an owner that did not get it in *timeout* seconds.

        One round trip asks who holds it.
        """
        call = self._query_script(self.session.clock() + PROMPT)
        try:
            status = yield from call
        except (ServerUnavailableError, WrongTypeError):
            holder = None
        else:
            holder = next(iter(status.holders), None)
        return not_acquired(self.kind, self.name, timeout, holder, self.session)

    def force_release(self) -> Op[bool]:
        """Free the lock, no matter who holds it.

        Returns:
            True when it was locked.

        Cost:
            Two round trips, three if another client holds it; one if nobody does.

        Source:
            RLock.forceUnlock.
        """
        session = self.session
        held = self._held_here()
        if not (yield from self.leave_notes(held)):
            for hold in held:
                session.lose(hold, hold.gone_reason(session.clock()))
            return False
        call = once(session, self.key, self._force_release_script())
        # A copy whose reply was lost may have freed it, so that the next one found nothing.
        released = bool((yield from session.persist(call))) or call.unknown > 0
        for hold in held:
            session.lose(hold, "force-released")
        if released:
            session.events.force_released(self.name, self.kind)
        return released

    def leave_notes(self, held: Sequence[Hold]) -> Op[bool]:
        """Leave notes for the holders, who are about to lose it by force, except for *held*.

        Returns:
            True if it is locked.
        """
        status = yield from self.status()
        if status.remaining is None:
            return False
        ours = {hold.holder for hold in held}
        others = [holder for holder in status.holders if holder not in ours]
        # A holder hears of it before its lease ends. No later loss must be explained by the note.
        yield from leave_notes(self.session, self.key, others, status.remaining)
        return True

    def _held_here(self) -> list[Hold]:
        """Return the holds of this client that a script loses if it frees the lock now.

        A PENDING hold may be granted after the script has run. It must not be taken for one that
        the script freed.
        """
        return [hold for hold in self.session.holds.of_key(self.key) if hold.state is not PENDING]

    def force_release_of(self, holder: str, reason: str) -> Op[bool]:
        """Free the lock if *holder* holds it, and tell that holder the *reason*.

        Returns:
            True if *holder* held it, or may have held it, because a reply was lost.

        Cost:
            Three round trips. One if *holder* does not hold the lock. One
            more takes the note back if the hold ended meanwhile.
        """
        session = self.session
        depth = (yield from self.status()).holders.get(holder, 0)
        if not depth:
            return False
        yield from leave_note(session, self.key, holder, reason)
        core = cast("CoreLock", self)  # `LockBase` has the rest of it
        hold = Hold(core, Owner("an operator"), holder, session.options.lease)
        hold.found(depth)
        call = break_once(session, self.key, self.release_script(hold, 0))
        released = bool((yield from session.persist(call))) or call.unknown > 0
        for mine in session.holds.of_key(self.key):
            if mine.holder == holder and mine.state is not PENDING:
                mine.explain(reason)
                session.lose(mine, "force-released")
        if released:
            session.events.force_released(self.name, self.kind, holder, reason)
        else:
            yield from take_note_back(session, self.key, holder, reason)
        return released

    def status(self) -> Op[LockStatus]:
        """Ask who holds it, how deep and for how long; one round trip."""
        return (yield from self.session.persist(self._query_script()))

    def query(self) -> Eval[LockStatus]:
        """Return the script that tells who holds it, to be answered within one round trip."""
        return self._query_script(self.session.clock() + GRACE)

    def depth_of(self, owner: Owner) -> Op[int]:
        """Return how deep *owner* holds it, as the server says.

        If *owner* does not hold it, the answer is 0, and there is no round trip.
        """
        hold = self.session.holds.get(self.hold_key, owner)
        if hold is None or hold.state is not HELD:
            return 0
        status = yield from self.status()
        depth = status.holders.get(hold.holder, 0)
        if depth == 0 and hold.state is HELD:
            self.session.lose(hold, hold.gone_reason(self.session.clock()))
        return depth


def not_held(kind: str, name: str, who: str) -> NotHeldError:
    """Return the error for an operation on a hold that *who* does not have."""
    return NotHeldError(
        f"{kind} {name!r} is not held by {who}; nothing was changed", name=name, owner=who
    )


def not_acquired(
    kind: str, name: str, timeout: float, holder: str | None, session: Session, *, member: str = ""
) -> AcquireTimeoutError:
    """Return the error for a lock that the client of *session* did not get in *timeout* seconds.

    *holder* has it, or its *member*.
    """
    return AcquireTimeoutError(
        f"{kind} {name!r} not acquired in {timeout:g} s{_held_by(holder, session, member)}",
        name=name,
        timeout=timeout,
        holder=holder,
    )


def name_holder(error: NotHeldError, holder: str | None, session: Session) -> None:
    """Name the present *holder* in *error*, for a user of the client of *session*."""
    error.holder = holder
    error.args = (f"{error.args[0]}{_held_by(holder, session)}",)
    if not session.is_parents(holder):
        tell_of_fork(error, session)


def tell_of_fork(error: NotHeldError, session: Session) -> None:
    """Say in *error* that a forked process holds nothing of its parent's, if this one is forked."""
    if session.parents:
        text = "this process was forked, and holds none of its parent's locks"
        error.args = (f"{error.args[0]}; {text}",)


def _held_by(holder: str | None, session: Session, member: str = "") -> str:
    """Return the end of a message: who holds the lock, by name if it is of this client.

    *member*: the lock that is held, if that is not clear.
    """
    if holder is None:
        return ""
    label = session.holds.label_of(holder)
    what = f"{member} is held" if member else "held"
    who = holder if label is None else f"{label} of this client ({holder})"
    if session.is_parents(holder):
        who = f"the process that forked this one ({holder})"
    return f"; {what} by {who}"
