"""What all lock-likes share: acquire, re-enter, give up, undo, ask.

Theory. Redisson's acquire adds one to a count, so a script that is sent twice counts twice. Ours tells the script which depth to
reach: an acquire or release may be repeated any number of times, and the undo of an acquire that was interrupted anywhere is
the release to the former depth, harmless when nothing had happened.

A kind of lock supplies its scripts (`attempt`, `release_script`, ...) and its channel; `lock.py` is the plainest.

Source: RLock, Redisson 4.7.0.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING

from interlock._core import releasing
from interlock._core.confirmation import confirm
from interlock._core.effects import NEVER, Eval, Settle, undoing
from interlock._core.holds import Hold, State, valid_until
from interlock._core.scripts.script import Grant
from interlock._core.session import GRACE
from interlock._core.waiting import may_overtake, wait_in_queue
from interlock.errors import (
    ClosedError,
    InterlockError,
    ReentryError,
    ServerUnavailableError,
)
from interlock.options import check_lease, check_name

if TYPE_CHECKING:
    from interlock._core.effects import Op
    from interlock._core.holds import Owner
    from interlock._core.scripts.lock import LockStatus
    from interlock._core.session import Session
    from interlock._core.watchdog import Renewal


class LockLike(ABC):
    """The operations of one lock for one client; immutable, holds no state of its own.

    Args:
        session: the client's state.
        name: what the user calls it.
        reentrant: whether its owner may take it again.
    """

    kind: str
    renewal: Renewal
    channel: str
    hold_key: object
    hands_over: bool = False
    """Whether who releases it may make a waiter of the same client its holder; it is a `Lock` then."""

    def __init__(self, session: Session, name: str, *, reentrant: bool = True) -> None:
        self.name = check_name(name)
        self.key = session.key(name)
        self.hold_key = self.key
        self.reentrant = reentrant
        self.session = self._session = session

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
    def _force_release_script(self) -> Eval[bool]:
        """Return the script that frees the lock, whoever holds it."""
        ...

    @abstractmethod
    def _query_script(self, deadline: float = NEVER) -> Eval[LockStatus]:
        """Return the script that tells who holds the lock."""
        ...

    # What the faces call.

    def acquire(self, owner: Owner, deadline: float, lease: float | None) -> Op[Hold | None]:
        """Acquire for *owner*, waiting until *deadline*.

        Args:
            owner: who will hold it.
            deadline: on the session's clock; one that has passed means one try.
            lease: seconds, or None for a hold that the watchdog renews.

        Returns:
            The hold, or None when *deadline* came first.

        Raises:
            ReentryError: it is not reentrant and *owner* holds it.
            HoldLostError: a re-entry found that the hold is lost.
            ServerUnavailableError: the server gave no usable answer in time.
            WrongTypeError: the key is something else's.
            ReplicationError: too few replicas have it, and they are required.

        Cost:
            One round trip when it is free or *owner*'s; while waiting, one per message of the channel and per poll cap, for
            the whole process. With `Options.replicas`, what they need to acknowledge on top.

        Source:
            RLock.lock and tryLock.
        """
        session = self._session
        if lease is not None:
            lease = check_lease(lease)
        held = session.holds.get(self.hold_key, owner)
        if held is not None and self._is_live(held):
            return (yield from self._reenter(held, deadline, lease))
        hold = self.new_hold(owner, lease)
        try:
            session.holds.begin(hold)
            sent_at = session.clock()
            call = self._request(hold, deadline, sent_at)
            outcome: Grant | float | BaseException | None = None
            if self._may_overtake(hold, deadline):
                # The hot path, one generator deep. What does not end it goes on below.
                hold.unsettled = True
                try:
                    outcome = call.script.decode((yield call))
                    if self.accept(hold, sent_at, outcome):
                        return hold
                except GeneratorExit:
                    raise
                except BaseException as error:  # noqa: BLE001 - it is raised again below, where it can be undone
                    outcome = error
            if isinstance(outcome, float) and hold.state is State.PENDING:
                rest = self._wait(hold, deadline)
            else:
                rest = self._go_on(hold, deadline, call, sent_at, outcome)
            # Many may wait here: what they keep meanwhile is memory.
            del call, outcome
            taken = yield from undoing(
                rest,
                releasing.undo_acquire,
                session,
                hold,
                owner,
            )
            if not taken and hold.offered:
                # Whoever offered it to us may still make us the holder.
                yield from releasing.undo_acquire(session, hold, owner, None)
            return hold if taken else None
        finally:
            # However this ends, by an interruption between two steps too: a claim left here would bar its owner for good.
            if hold.state is State.PENDING:
                hold.state = State.ENDED
                session.holds.end(hold)

    def acquire_or_raise(
        self, owner: Owner, deadline: float, timeout: float, lease: float | None
    ) -> Op[Hold]:
        """Acquire as `acquire` does, or raise what a ``with`` statement needs.

        Raises:
            AcquireTimeoutError: *deadline* came first; one more round trip asked who holds it.
        """
        hold = yield from self.acquire(owner, deadline, lease)
        if hold is not None:
            return hold
        holder = yield from self._present_holder()
        raise releasing.not_acquired(self.kind, self.name, timeout, holder)

    def release(self, owner: Owner) -> Op[None]:
        """Go down by one depth; free the lock at 0.

        Raises:
            NotHeldError: *owner* does not hold it; nothing was changed.
            HoldLostError: it was lost before.
            ServerUnavailableError: no reply; the hold is not renewed any more, and releasing it may be tried again.

        Cost:
            One round trip.

        Source:
            RLock.unlock.
        """
        yield from releasing.release(self._session, self._mine(owner))

    def release_hold(self, hold: Hold) -> Op[None]:
        """Go down by one depth in *hold*, whoever asks; errors as `release`."""
        return releasing.release(self._session, hold)

    def extend(self, owner: Owner, lease: float) -> Op[None]:
        """Have at least *lease* seconds from now.

        Raises:
            NotHeldError: *owner* does not hold it.
            HoldLostError: it is lost.
            ServerUnavailableError: no usable answer.

        Cost:
            One round trip.
        """
        yield from releasing.extend(self._session, self._mine(owner), lease)

    def force_release(self) -> Op[bool]:
        """Free the lock, whoever holds it.

        Returns:
            True when it was locked.

        Cost:
            One round trip.

        Source:
            RLock.forceUnlock.
        """
        session = self._session
        call = self._force_release_script()
        # What is still being acquired may be granted when the script has run, and must not be taken for what it freed.
        held = [hold for hold in session.holds.of_key(self.key) if hold.state is not State.PENDING]
        released = yield from session.persist(call)
        for hold in held:
            session.lose(hold, "force-released")
        return released or call.unknown

    def status(self) -> Op[LockStatus]:
        """Ask who holds it, how deep and for how long; one round trip."""
        return (yield from self._session.persist(self._query_script()))

    def depth_of(self, owner: Owner) -> Op[int]:
        """Return how deep *owner* holds it: 0 without a round trip if not, else what the server says."""
        hold = self._session.holds.get(self.hold_key, owner)
        if hold is None or hold.state is not State.HELD:
            return 0
        status = yield from self.status()
        depth = status.holders.get(hold.holder, 0)
        if depth == 0 and hold.state is State.HELD:
            self._session.lose(hold, "force-released")
        return depth

    def hold_of(self, owner: Owner) -> Hold | None:
        """Return *owner*'s hold, lost or not, as known locally."""
        hold = self._session.holds.get(self.hold_key, owner)
        return None if hold is None or hold.state in (State.PENDING, State.ENDED) else hold

    # How it is done; a red lock does it for many at once.

    @property
    def place(self) -> tuple[str, str, str]:
        """Return what tells this lock from all others, in the order in which multi locks take them."""
        return (self.session.where, self.key, self.kind)

    def new_hold(self, owner: Owner, lease: float | None) -> Hold:
        """Return a hold that is nowhere yet; it must be in the table before anything is sent for it."""
        session = self.session
        hold = Hold(self, owner, self._holder(owner), lease or session.options.lease)
        if lease is None:
            hold.renewal = self.renewal
        return hold

    def _holder(self, owner: Owner) -> str:
        """Return as whom *owner* is to hold it."""
        return self.session.holder(owner)

    def _may_overtake(self, hold: Hold, deadline: float) -> bool:
        """Return whether to try for *hold* before queueing."""
        del hold
        return may_overtake(self.session, self.channel, deadline)

    def _is_live(self, hold: Hold) -> bool:
        """Decide whether an acquire by the owner of *hold* is a re-entry."""
        if hold.state is State.PENDING:
            raise ReentryError(
                f"{self.kind} {self.name!r} is just being acquired by the same owner",
                name=self.name,
            )
        if hold.state is State.HELD and hold.lost(self._session.clock()):
            self._session.lose(hold, hold.expiry_reason())
        if hold.state is State.HELD:
            return True
        # Another thread's release of it may still be under way: it must not meet the next hold under the same field.
        releasing.retire_number(hold)
        return False

    def _go_on(
        self,
        hold: Hold,
        deadline: float,
        call: Eval[Grant | float],
        sent_at: float,
        outcome: Grant | float | BaseException | None,
    ) -> Op[bool]:
        """Go on after *call*, the first try, came to *outcome* (None: it was not sent); tell whether *hold* is held."""
        if outcome is not None:
            if isinstance(outcome, BaseException):
                outcome = yield from self._session.again(call, outcome)
            left = yield from self._conclude(hold, sent_at, outcome, deadline)
            if left is None:
                return True
        return (yield from self._wait(hold, deadline))

    def _wait(self, hold: Hold, deadline: float) -> Op[bool]:
        """Try until *hold* is held or *deadline* passes, having tried or not."""
        return wait_in_queue(
            self._session,
            self.channel,
            deadline,
            hold.lease,
            self._try,
            hold,
            deadline,
            candidate=hold if self.hands_over else None,
        )

    def _reenter(self, hold: Hold, deadline: float, lease: float | None) -> Op[Hold]:
        session = self._session
        if not self.reentrant:
            raise ReentryError(
                f"{self.kind} {self.name!r} is held by the same owner and is not reentrant",
                name=self.name,
            )
        # At once, so that another thread that releases this hold meanwhile counts from there.
        hold.depth += 1
        sent_at = session.clock()
        wanted = lease or session.options.lease
        answer = yield from undoing(
            session.persist(
                self.attempt(hold, wanted, hold.depth, self._answer_by(deadline, sent_at))
            ),
            self._undo_reentry,
            hold,
        )
        if not isinstance(answer, Grant):
            session.lose(hold, "force-released")
            raise releasing.lost(hold)
        hold.handle = None  # whoever entered again may go on holding without the first one's handle
        hold.extend_validity(sent_at, wanted)
        if lease is None:
            hold.renewal = self.renewal
        session.watchdog.watch(hold)
        return hold

    def _try(self, hold: Hold, deadline: float) -> Op[float | None]:
        """Ask the server once; None when *hold* is held now, else how long it may be kept by another."""
        if hold.state is not State.PENDING and hold.depth > 0:
            return None  # it was handed over
        session = self._session
        sent_at = session.clock()
        hold.unsettled = True
        answer = yield from session.persist(self._request(hold, deadline, sent_at))
        return (yield from self._conclude(hold, sent_at, answer, deadline))

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

    def _conclude(
        self, hold: Hold, sent_at: float, answer: Grant | float, deadline: float
    ) -> Op[float | None]:
        if self.accept(hold, sent_at, answer):
            return None
        if hold.state is State.ENDED:
            raise ClosedError("the client was closed, and what it was just acquiring given back")
        if not isinstance(answer, Grant):
            return answer
        # The answer took longer than the lease: somebody else may hold it by now.
        call = self.release_script(hold, 0)
        call.deadline = self._answer_by(deadline, self._session.clock())
        _ = yield from self._session.persist(call)
        if call.unknown and (owner := hold.owner()) is not None:
            # A try of that release may still be under way: it must not meet the next acquire under the same field.
            owner.renumber()
            hold.holder = self._holder(owner)
        hold.depth = 0
        return 0.0

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

    def _undo_reentry(self, hold: Hold, error: BaseException) -> Op[None]:
        hold.depth -= 1
        if isinstance(error, InterlockError) and not getattr(error, "sent", False):
            return
        call = self.release_script(hold, hold.depth)
        if isinstance(error, ServerUnavailableError):
            yield from Settle(call, hold.valid_until)
        else:
            yield from self._session.settle(call, hold.valid_until)

    def _mine(self, owner: Owner) -> Hold:
        hold = self._session.holds.get(self.hold_key, owner)
        if hold is None or hold.state is State.PENDING:
            raise releasing.not_held(self.kind, self.name, owner.label)
        return hold

    def _present_holder(self) -> Op[str | None]:
        call = self._query_script(self._session.clock() + GRACE / 2)
        try:
            status = yield from call
        except ServerUnavailableError:
            return None
        return next(iter(status.holders), None)
