"""What all lock-likes share: acquire, re-enter, give up, undo, ask.

Theory. Redisson's acquire adds one to a count, so a script that is sent twice counts twice. Ours tells the script which depth to
reach: an acquire or release may be repeated any number of times, and the undo of an acquire that was interrupted anywhere is
the release to the former depth, harmless when nothing had happened.

A kind of lock supplies its scripts (`attempt`, `release_script`, ...) and its channel; `lock.py` is the plainest.

Source: RLock, Redisson 4.7.0.
"""

from __future__ import annotations

from abc import abstractmethod
from typing import TYPE_CHECKING

from interlock._core import releasing, strays
from interlock._core.effects import NEVER, Eval, undoing
from interlock._core.holds import Hold, State
from interlock._core.lock_steps import LockSteps
from interlock._core.scripts.script import Grant
from interlock._core.session import GRACE
from interlock._core.waiting import may_overtake, wait_in_queue
from interlock.errors import (
    ClosedError,
    InterlockError,
    ReentryError,
    ServerUnavailableError,
)
from interlock.options import check_lease

if TYPE_CHECKING:
    from interlock._core.effects import Op
    from interlock._core.holds import Owner
    from interlock._core.scripts.lock import LockStatus
    from interlock.errors import AcquireTimeoutError


class LockLike(LockSteps):
    """The operations of one lock for one client; arguments and attributes as of `LockSteps`."""

    # What a kind of lock supplies.

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
        hold = self.fresh(owner, lease)
        first = hold is not None
        if hold is None:
            held = self._session.holds.get(self.hold_key, owner)
            if held is not None and self._is_live(held):
                return (yield from self._reenter(held, deadline, lease))
            hold = self.new_hold(owner, lease)
            first = self._may_overtake(hold, deadline)
        sent_at = 0.0
        call: Eval[Grant | float] | None = None
        outcome: Grant | float | BaseException | None = None
        try:
            try:
                self._session.holds.begin(hold)
                sent_at = self._session.clock()
                # Made even if others wait here: an upgrade, which would wait for itself, is refused by it.
                call = self.request(hold, deadline, sent_at)
                if first:
                    hold.unsettled = True
                    outcome = call.script.decode((yield call))
                    if self.accept(hold, sent_at, outcome):
                        return hold
            except BaseException as error:  # noqa: BLE001 - it is raised again where it can be undone
                outcome = error
            rest = self.carry_on(hold, owner, deadline, sent_at, outcome)
            call = outcome = None
            return (yield from rest)
        finally:
            self._disclaim(hold)

    def carry_on(
        self,
        hold: Hold,
        owner: Owner,
        deadline: float,
        sent_at: float,
        outcome: Grant | float | BaseException | None,
    ) -> Op[Hold | None]:
        """Go on with an acquire whose first try, sent at *sent_at*, came to *outcome* (None: there was none).

        Args:
            hold: what is to be held.
            owner: as for `acquire`.
            deadline: as for `acquire`.
            sent_at: when the first try was sent.
            outcome: the server's answer, or what struck before or after it.

        Returns:
            As `acquire`, like what it raises.
        """
        return self._claim(hold, owner, self._rest(hold, deadline, sent_at, outcome))

    def _claim(self, hold: Hold, owner: Owner, op: Op[bool]) -> Op[Hold | None]:
        """Return *hold* if *op* tells that it is held; else leave nothing behind.

        What `undoing` does is written out: many may wait here, and each generator is memory that they keep meanwhile.
        """
        try:
            try:
                taken = yield from op
            except GeneratorExit:
                raise
            except BaseException as error:
                yield from strays.undo_acquire(self._session, hold, owner, error)
                raise
            if not taken and (hold.offered or hold.strays):
                # Whoever offered the lock must not make it the holder still, and no try that was given up either.
                yield from strays.undo_acquire(self._session, hold, owner, None)
            return hold if taken else None
        finally:
            self._disclaim(hold)

    def _disclaim(self, hold: Hold) -> None:
        """However an acquire ends, by an interruption between two steps too: a claim left behind would bar its owner for good."""
        if hold.state is State.PENDING:
            hold.state = State.ENDED
            self._session.holds.end(hold)

    def refusal(self, timeout: float) -> Op[AcquireTimeoutError]:
        """Return the error for who did not get it in *timeout* seconds; one round trip asks who holds it."""
        holder = yield from self._present_holder()
        return releasing.not_acquired(self.kind, self.name, timeout, holder)

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
        return released or call.unknown > 0

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

    # How it is done; a red lock does it for many at once.

    def _may_overtake(self, hold: Hold, deadline: float) -> bool:
        """Return whether to try for *hold* before queueing."""
        del hold
        return may_overtake(self.session, self.queue, deadline)

    def _is_live(self, hold: Hold) -> bool:
        """Decide whether an acquire by the owner of *hold* is a re-entry."""
        if hold.state is State.PENDING:
            raise ReentryError(
                f"{self.kind} {self.name!r} is just being acquired by the same owner",
                name=self.name,
            )
        if hold.state is State.HELD and hold.lost(self._session.clock()):
            self._session.lose(hold, hold.expiry_reason())
        if hold.state is State.LOST and hold.inside():
            # The owner must hear of the loss; it releases the lost hold before it acquires another.
            raise releasing.lost(hold)
        if hold.state is State.HELD:
            return True
        # Another thread's release of it may still be under way: it must not meet the next hold under the same field.
        strays.retire_number(hold)
        return False

    def _rest(
        self,
        hold: Hold,
        deadline: float,
        sent_at: float,
        outcome: Grant | float | BaseException | None,
    ) -> Op[bool]:
        """Return what is left to do after the first try came to *outcome*; it tells whether *hold* is held."""
        if outcome is None or (isinstance(outcome, float) and hold.state is State.PENDING):
            return self._wait(hold, deadline)
        return self._go_on(hold, deadline, sent_at, outcome)

    def _go_on(
        self,
        hold: Hold,
        deadline: float,
        sent_at: float,
        outcome: Grant | float | BaseException,
    ) -> Op[bool]:
        """Go on after the first try came to *outcome*; tell whether *hold* is held."""
        if isinstance(outcome, ServerUnavailableError):
            call = self._request(hold, deadline, sent_at)
            try:
                outcome = yield from self._session.again(call, outcome)
            finally:
                hold.strays += call.unknown
        if isinstance(outcome, BaseException):
            raise outcome
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
        wanted = session.options.lease if lease is None else check_lease(lease)
        # At once, so that another thread that releases this hold meanwhile counts from there.
        hold.depth += 1
        sent_at = session.clock()
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
        hold.owned = True  # who entered again may go on holding without the first one's handle
        hold.extend_validity(sent_at, wanted)
        if hold.lost(session.clock()):
            # The answer took longer than the lease: somebody else may hold it by now.
            session.lose(hold, hold.expiry_reason())
            raise releasing.lost(hold)
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
        call = self._request(hold, deadline, sent_at)
        try:
            answer = yield from session.persist(call)
        finally:
            hold.strays += call.unknown
        return (yield from self._conclude(hold, sent_at, answer, deadline))

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
            yield from strays.outlive(self._session, hold)
            hold.strays = 0
            hold.holder = self._holder(owner)
        hold.depth = 0
        return 0.0

    def _undo_reentry(self, hold: Hold, error: BaseException) -> Op[None]:
        hold.depth -= 1
        if isinstance(error, InterlockError) and not getattr(error, "sent", False):
            return
        call = self.release_script(hold, hold.depth)
        yield from self._session.settle_after(error, call, hold.valid_until)

    def _present_holder(self) -> Op[str | None]:
        call = self._query_script(self._session.clock() + GRACE / 2)
        try:
            status = yield from call
        except ServerUnavailableError:
            return None
        return next(iter(status.holders), None)
