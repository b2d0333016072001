"""The steps that the operations of a lock-like are made of, none of which waits; drivers that do without an operation take them too.

A try consists of `fresh` or `new_hold`, then `request`, and `accept` with the answer. Releasing is `held_once` and `last_release` where
nothing else is to be done.

Source: RLock, Redisson 4.7.0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Literal

from interlock._core import releasing
from interlock._core.confirmation import confirm
from interlock._core.effects import NEVER
from interlock._core.holds import Hold, State, valid_until
from interlock._core.scripts.script import Grant
from interlock._core.session import GRACE
from interlock.options import check_lease, check_name

if TYPE_CHECKING:
    from interlock._core.effects import Eval, Op
    from interlock._core.holds import Owner
    from interlock._core.session import Session
    from interlock._core.watchdog import Renewal


class _Kept:
    """What a holder sends for a lock each time."""

    __slots__ = ("acquire", "holder", "lease", "release")

    def __init__(self, hold: Hold, acquire: Eval[Grant | float], release: Eval[int]) -> None:
        self.holder = hold.holder
        self.lease = hold.lease
        self.acquire = acquire
        self.release = release


class LockSteps(ABC):
    """One lock for one client; holds no state of its own, but what it sends again.

    Args:
        session: the client's state.
        name: what the user calls it.
        reentrant: whether its owner may take it again.
    """

    kind: str
    renewal: Renewal
    channel: str
    queue: str
    hold_key: object
    joint: Literal[False] = False
    hands_over: bool = False
    """Whether who releases it may make a waiter of the same client its holder; it is a `Lock` then."""
    repeats: bool = False
    """Whether the same owner sends the same for it each time."""

    def __init__(self, session: Session, name: str, *, reentrant: bool = True) -> None:
        self.name = check_name(name)
        self.key = session.key(name)
        self.hold_key = self.key
        self.reentrant = reentrant
        self.session = self._session = session
        self._kept: _Kept | None = None
        self._last_holder = ""

    # What a kind of lock supplies.

    @abstractmethod
    def attempt(self, hold: Hold, lease: float, depth: int, deadline: float) -> Eval[Grant | float]:
        """Return the script that takes *hold* to *depth*, or tells how long another may keep the lock."""
        ...

    @abstractmethod
    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        """Return the script that takes *hold* down to *depth*; freeing the lock at 0 tells the waiters."""
        ...

    @abstractmethod
    def release_hold(self, hold: Hold) -> Op[None]:
        """Go down by one depth in *hold*, whoever asks."""
        ...

    # A try.

    def fresh(self, owner: Owner, lease: float | None) -> Hold | None:
        """Return a hold to try for at once, which is nowhere yet.

        Returns:
            None when there is more to it: *owner* has a hold already, or others wait here.
        """
        session = self._session
        if (
            self.hold_key,
            owner.identity,
        ) in session.holds.table or self.queue in session.waiters.queues:
            return None
        return self.new_hold(owner, lease)

    def new_hold(self, owner: Owner, lease: float | None) -> Hold:
        """Return a hold that is nowhere yet; it must be in the table before anything is sent for it."""
        if lease is not None:
            return Hold(self, owner, self._holder(owner), check_lease(lease))
        hold = Hold(self, owner, self._holder(owner), self._session.options.lease)
        hold.renewal = self.renewal
        return hold

    def _holder(self, owner: Owner) -> str:
        """Return as whom *owner* is to hold it."""
        return self.session.holder(owner)

    def request(self, hold: Hold, deadline: float, now: float) -> Eval[Grant | float]:
        """Return the script that tries to get *hold*; not to be changed.

        What an owner who comes again sends again is kept, packed as it is.
        """
        kept = self._kept
        if (
            kept is not None
            and kept.holder == hold.holder
            and kept.lease == hold.lease
            and deadline == NEVER
        ):
            return kept.acquire
        call = self._request(hold, deadline, now)
        if self.repeats and deadline == NEVER and call.confirm is None:
            if self._last_holder == hold.holder:
                self._kept = _Kept(hold, call, self.release_script(hold, 0))
            # Most locks are taken once: only by coming again does an owner make this worth its memory.
            self._last_holder = hold.holder
        return call

    def _request(self, hold: Hold, deadline: float, now: float) -> Eval[Grant | float]:
        """Return the script that tries to get *hold*, for an owner who waits until *deadline*."""
        call = self.attempt(hold, hold.lease, 1, self._answer_by(deadline, now))
        if self.session.replicas is not None:
            confirm(call, hold, self.session.replicas)
        return call

    @staticmethod
    def _answer_by(deadline: float, sent_at: float) -> float:
        """Return when the reply must have come: a single try too has time for a second one if its connection is stale."""
        return deadline if deadline > sent_at else sent_at + GRACE

    def accept(self, hold: Hold, sent_at: float, answer: Grant | float) -> bool:
        """Take *answer*, to what was sent at *sent_at*; tell whether *hold* is held now."""
        if not isinstance(answer, Grant) or hold.state is not State.PENDING:
            hold.unsettled = hold.offered
            return False
        session = self._session
        hold.depth = 1
        hold.unsettled = False
        hold.token = answer.token
        hold.valid_until = valid_until(sent_at, hold.lease)
        if session.clock() >= hold.valid_until:
            return False
        hold.state = State.HELD
        session.watchdog.watch(hold)
        return True

    # A release.

    def held_once(self, owner: Owner) -> Hold | None:
        """Return *owner*'s hold if one script, and nothing else, is all that releases it."""
        session = self._session
        hold = session.holds.table.get((self.hold_key, owner.identity))
        if (
            hold is None
            or hold.state is not State.HELD
            or hold.depth != 1
            or hold.strays
            or session.clock() >= hold.valid_until
            or self.queue in session.waiters.queues
        ):
            return None
        return hold

    def last_release(self, hold: Hold) -> Eval[int]:
        """Return the script that takes *hold* down from depth 1; not to be changed."""
        kept = self._kept
        if kept is not None and kept.holder == hold.holder:
            return kept.release
        return self.release_script(hold, 0)

    # What is known here.

    @property
    def place(self) -> tuple[str, str, str]:
        """Return what tells this lock from all others, in the order in which multi locks take them."""
        return (self.session.database, self.key, self.kind)

    def hold_of(self, owner: Owner) -> Hold | None:
        """Return *owner*'s hold, lost or not, as known locally."""
        hold = self._session.holds.get(self.hold_key, owner)
        return None if hold is None or hold.state in (State.PENDING, State.ENDED) else hold

    def _mine(self, owner: Owner) -> Hold:
        hold = self._session.holds.get(self.hold_key, owner)
        if hold is None or hold.state is State.PENDING:
            raise releasing.not_held(self.kind, self.name, owner.label)
        return hold
