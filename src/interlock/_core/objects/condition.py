"""The condition: owners of a lock wait until another owner of it notifies them.

Theory. One sorted set has the waiters in the order in which they came. Another one has the ends of
their leases. A waiter enters both while it still holds the lock, so it misses no notification. A
notification takes a waiter out of the first set. The waiter acquires the lock again, and only then
leaves the second set. Until that moment its notification can go to another waiter.

Rules:

* A waiter is a hold: the client renews it until its wait is over. If its process dies, its lease
  ends. Then the next look of another waiter passes its notification on.
* Each notification is taken once: the script that ends a wait tells whether it was notified.
* An interrupted wait passes its notification on to the next waiter.
* Each waiter has a channel of its own, so a notification wakes nobody in vain.
* However a wait ends, the lock is held again as before. If that is impossible, the error says so:
  HoldLostError, ClosedError, or a note on the error that ended the wait.

Source: threading.Condition and asyncio.Condition of Python 3.13.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from interlock._core.insight.events import tell_loss
from interlock._core.locks.known_lock import not_held
from interlock._core.locks.lock_base import LockBase, undo_acquire
from interlock._core.model import names
from interlock._core.model.effects import NEVER, RunOn, undoing
from interlock._core.model.holds import HELD, LOST, Hold, Owner
from interlock._core.objects.leased_waiters import LeasedWaiters
from interlock._core.queue.waiting import wait_in_queue
from interlock._core.scripts import condition as scripts
from interlock.errors import ClosedError, ConfigError, HoldLostError, InterlockError

if TYPE_CHECKING:
    from interlock._core.locks.composite import CompositeHold, CompositeLock
    from interlock._core.model.effects import Eval, Op, Step
    from interlock._core.upkeep.idempotency import IdempotentCall
    from interlock._core.upkeep.session import Session


class _Before(NamedTuple):
    """What the owner of a lock held before it waited."""

    owner: Owner
    hold: Hold | CompositeHold
    depth: int
    lease: float | None
    acquiring: list[Step[Any]]
    """The acquire that is under way, if any."""


class Condition(LeasedWaiters):
    """The operations of one condition for one client.

    Args:
        session: the client's state.
        lock: the lock that its users hold.
        name: what the user calls it.

    Raises:
        ConfigError: *lock* belongs to another client.
    """

    kind = "condition"

    def __init__(self, session: Session, lock: LockBase | CompositeLock, name: str) -> None:
        super().__init__(session, name, names.condition_leases)
        if isinstance(lock, LockBase) and lock.session is not session:
            raise ConfigError(
                f"condition {name!r} needs a lock of its own client: "
                f"{lock.kind} {lock.name!r} is another client's"
            )
        self.lock = lock
        self._channel = names.condition_channel(self._base)

    def wait(self, owner: Owner, deadline: float) -> Step[bool]:
        """Release the lock, wait until notified or *deadline*, and acquire the lock again.

        The public `Condition.wait` describes the result, errors and costs.

        Args:
            owner: who holds the lock.
            deadline: on the session's clock; it limits only the wait for a notification.
        """
        hold = self._held(owner)
        before = _Before(owner, hold, hold.depth, _lease_of(hold), [])
        last: list[Hold] = []
        # A second Ctrl-C ends a long wait for the lock, too. But it leaves no waiter behind.
        waiting = self._wait_or_undo(before, deadline, last)
        return self._waiting(waiting, last, before.acquiring)

    def _wait_or_undo(self, before: _Before, deadline: float, last: list[Hold]) -> Op[bool]:
        """Wait as `wait` does; *last* gets the waiter."""
        request = self._calls.begin()
        label = Owner(f"a waiter of condition {self.name!r}")  # kept until the wait is over
        waiter = Hold(self, label, request.id, self._lease, self.renewal)
        last.append(waiter)
        waiting = self._wait(request, waiter, before, deadline)
        try:
            return (yield from undoing(waiting, self._undo, waiter, before))
        finally:
            # An abandoned wait is not undone, but a PENDING hold must not stay in the table.
            self.session.holds.unreserve(waiter)

    def _wait(
        self, request: IdempotentCall, waiter: Hold, before: _Before, deadline: float
    ) -> Op[bool]:
        session, place = self.session, self._place()
        session.holds.begin(waiter)
        sent_at = session.clock()
        waiter.sent()
        enlisting = scripts.condition_enlist(place, request, waiter.holder, self._lease, self._kept)
        _ = yield from self._calls.send(request, enlisting)
        if waiter.grant(None, sent_at, session.clock()):
            session.watchdog.watch(waiter)
        for _ in range(before.depth):
            yield from self.lock.release(before.owner)
        channel = names.waiter_channel(self._channel, waiter.holder)
        _ = yield from wait_in_queue(session, channel, deadline, None, self._look, waiter, deadline)
        yield from self._acquire_again(before)
        ending = scripts.condition_end(place, request, waiter.holder)
        notified = yield from self._calls.answer_to(request, ending)
        session.holds.end(waiter)
        return notified

    def _look(self, waiter: Hold, deadline: float) -> Op[float | None]:
        """Look once; return the seconds until another waiter may be dead.

        None if *waiter* waits no longer.
        """
        session = self.session
        call = scripts.condition_look(self._place(), waiter.holder, self._kept, deadline=deadline)
        remaining = yield from session.persist(call)
        if remaining is None or remaining > 0:
            return remaining
        # A waiter's lease has ended. If it was notified, the next one gets the notification.
        request = self._calls.begin()
        _ = yield from self._calls.answer_to(request, self._notify_script(request, 0))
        return 0.0

    def _acquire_again(self, before: _Before) -> Op[None]:
        """Hold the lock as *before*; the handles of the former hold release the new one.

        Raises:
            HoldLostError: the lock cannot be acquired again.
        """
        while True:
            hold = self.lock.hold_of(before.owner)
            if hold is not None and hold.state == HELD and hold.depth >= before.depth:
                former: Any = before.hold  # of the same class, as the lock is the same
                former.hand_on(hold)
                before.acquiring.clear()  # a Ctrl-C may have come between its end and here
                return
            try:
                acquiring: Step[Hold | None] | Step[CompositeHold | None]
                acquiring = self.lock.acquire(before.owner, NEVER, before.lease)
                # As an operation of its own it leaves the local queue when it ends. Otherwise the
                # next acquire would wait behind it.
                before.acquiring[:] = [acquiring]
                yield from RunOn(self.session, iter(acquiring))
                before.acquiring.clear()
            except (HoldLostError, ClosedError):
                raise
            except InterlockError as error:
                raise HoldLostError(
                    f"{self.lock.kind} {self.lock.name!r} could not be acquired again after a "
                    f"wait for condition {self.name!r}: {error}",
                    name=self.lock.name,
                    reason="unreachable past validity",
                ) from error

    def _undo(self, waiter: Hold, before: _Before, error: BaseException) -> Op[None]:
        """Pass a notification of *waiter* on to the next one, and hold the lock again."""
        yield from undo_acquire(self.session, waiter, error)
        if isinstance(error, HoldLostError | ClosedError):
            return
        try:
            yield from self._acquire_again(before)
        except HoldLostError as trouble:
            if isinstance(error, InterlockError):
                raise trouble from error
            error.add_note(f"interlock: {trouble}")
        except ClosedError as trouble:
            error.add_note(f"interlock: {trouble}")

    def notify(self, owner: Owner, count: int) -> Step[bool]:
        """Notify the *count* waiters that came first, -1 for all of them.

        *owner* must hold the lock. The public `Condition.notify` lists errors and costs.
        """
        _ = self._held(owner)
        return self._calls.carried_through(lambda call: self._notify_script(call, count))

    def _held(self, owner: Owner) -> Hold | CompositeHold:
        """Return the hold of *owner*; raise unless it is valid."""
        lock = self.lock
        hold = lock.hold_of(owner)
        if hold is None:
            raise not_held(lock.kind, lock.name, owner.label)
        if hold.lost(self.session.clock()) or hold.state == LOST:
            reason = hold.reason or hold.expiry_reason()
            raise HoldLostError(
                f"{lock.kind} {lock.name!r} was lost ({tell_loss(reason, hold.detail)}) "
                f"before condition {self.name!r} was used",
                name=lock.name,
                reason=reason,
                detail=hold.detail,
            )
        return hold

    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        """Return the script that undoes the wait of *hold*; *depth* is not used."""
        del depth
        # This key tells what became of its wait.
        request = names.own_request(self._base, hold.holder)
        return scripts.condition_leave(self._place(), request, hold.holder, self._calls.ttl())

    def _notify_script(self, call: IdempotentCall, count: int) -> Eval[bool]:
        return scripts.condition_notify(self._place(), call, count)

    def _place(self) -> scripts.Condition:
        waiting = names.condition_waiting(self._base)
        return scripts.Condition(waiting, self.key, self.session.publish, self._channel)


def _lease_of(hold: Hold | CompositeHold) -> float | None:
    """Return the lease that the owner has chosen for *hold*; None when it is renewed."""
    first = hold if isinstance(hold, Hold) else hold.members[0]
    return first.lease if first.renewal is None else None
