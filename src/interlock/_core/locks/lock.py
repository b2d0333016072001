"""The reentrant lock.

RLock of Redisson. A hash has one field: the holder, with its depth. The TTL of the hash is the
lease.

The other kinds copy the shape of `Lock`: the scripts and names of one kind of lock.
`PassLocally`, the release to the first local waiter, is for this kind only.

Source: RLock, Redisson 4.7.0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interlock._core.locks.lock_base import Release
from interlock._core.locks.started_lock import StartedLock
from interlock._core.model import names
from interlock._core.model.effects import NEVER, Eval, failing
from interlock._core.model.holds import ENDED, Hold
from interlock._core.queue.grant_looks import NEXT_IS_OURS
from interlock._core.queue.lines import line_of
from interlock._core.scripts import lock as scripts
from interlock._core.scripts.script import GRANTED

if TYPE_CHECKING:
    from collections.abc import Callable

    from interlock._core.locks.kept_commands import KeptCommands
    from interlock._core.model.effects import Op
    from interlock._core.queue.places import Place
    from interlock._core.queue.waiter import Waiter
    from interlock._core.queue.waiters import Waiters
    from interlock._core.scripts.lock import LockStatus
    from interlock._core.scripts.script import Grant
    from interlock._core.upkeep.session import Session


PASSED = 1
"""The answer of a local pass that has made the waiter the holder; 0 if neither of the two is it."""


class Lock(StartedLock):
    """A lock that one owner at a time holds."""

    kind = "lock"
    renewal = staticmethod(scripts.lock_renew)
    passes_locally = True
    repeats = True
    transferable = True
    """Whether a hold may go to another process."""
    repeats_entries = True
    """Whether an owner sends the same commands each time it goes to the same depth above 1."""

    def __init__(self, session: Session, name: str, *, reentrant: bool = True) -> None:
        super().__init__(session, name, reentrant=reentrant)
        self.channel = names.lock_channel(self.key)
        self.line = line_of(self.channel, self.key)
        # The last re-entry: the holder, the depth, the lease, and the commands for up and down.
        self._entry: tuple[str, int, float, Eval[Grant | float], Eval[int]] | None = None

    @property
    def _publish(self) -> str:
        return self.session.publish

    def acquire_script(
        self, hold: Hold, lease: float, depth: int, deadline: float
    ) -> Eval[Grant | float]:
        return scripts.lock_acquire(self.key, lease, hold.holder, depth, deadline=deadline)

    def entry_script(
        self, hold: Hold, lease: float, depth: int, deadline: float
    ) -> Eval[Grant | float]:
        """Return the script that takes *hold* one deeper. It may be shared: do not change it.

        The last one is kept, with the release from there. That saves 18,000 of 65,000 instructions
        for an owner that enters and leaves again and again.
        """
        last, repeats = self._entry, self.repeats_entries and deadline == NEVER
        if (
            repeats
            and last is not None
            and last[0] == hold.holder
            and last[1] == depth
            and last[2] == lease
        ):
            return last[3]
        call = super().entry_script(hold, lease, depth, deadline)
        if repeats:
            down = self.release_script(hold, depth - 1)
            self._entry = hold.holder, depth, lease, call, down
        return call

    def kept_release(self, hold: Hold, depth: int) -> Eval[int]:
        if depth == 0:
            kept = self._kept  # `super` inlined: it costs as much as all the rest
            if kept is not None and kept.holder == hold.holder:
                return kept.release
        else:
            last = self._entry
            if last is not None and last[0] == hold.holder and last[1] == depth + 1:
                return last[4]
        return self.release_script(hold, depth)

    def request(self, hold: Hold, deadline: float, now: float) -> Eval[Grant | float]:
        """Return the script that tries to get *hold*. It may be shared: do not change it."""
        kept = self._kept
        if (  # `kept_for` inlined
            kept is not None
            and kept.holder == hold.holder
            and kept.lease == hold.lease
            and deadline == NEVER
        ):
            place = self.session.waiters.places.get(self.line)
            known = kept.acquire if place is None else self._stand(kept, hold, place)
            if known is not None:
                return known
        return super().request(hold, deadline, now)

    def _request(self, hold: Hold, deadline: float, now: float) -> Eval[Grant | float]:
        kept = self.kept_for(hold)
        place = self.session.waiters.places.get(self.line)
        if kept is None or place is None or deadline <= now:
            return super()._request(hold, deadline, now)
        known = self._stand(kept, hold, place)
        if known is None:
            call = super()._request(hold, deadline, now)
            kept.keep_waiting(call)
            return call
        call = known.anew()
        call.deadline = self.answer_by(deadline, now)
        return call

    def _stand(self, kept: KeptCommands, hold: Hold, place: Place) -> Eval[Grant | float] | None:
        """Stand in the server's queue at *place*; return the kept try for *hold*, if there is one.

        Then nothing else is to be noted before that try is sent.
        """
        queues = self.session.waiters.queues
        others_wait = self.line in queues and len(queues[self.line]) > 1  # `alone` inlined
        starts = self.starts(hold, others_wait=others_wait)
        known = kept.waiting.get((others_wait, starts))
        if known is not None:
            if starts:
                hold.stand()
            place.stand(others_wait, hold.holder if starts else "")
        return known

    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        return scripts.lock_release(self.key, hold.holder, depth, self._publish, self.channel)

    def release_hold(self, hold: Hold) -> Release:
        """Go down by one depth in *hold*; at 0 the first local waiter may become the holder."""
        session = self.session
        waits = self.line in session.waiters.queues
        # `may_pass_on` tells of a queue on the server; another lock may have the same one.
        if waits and self.passes_locally and session.may_pass_on and not self._shares_channels:
            return PassLocally(self, hold)
        return Release().of(session, hold)

    def accept_pass(self, hold: Hold, sent_at: float) -> bool:
        """Take *hold* as granted by `PassLocally`, which was sent at *sent_at*.

        Return whether it is held now.
        """
        hold.sent()
        return self.accept(hold, sent_at, GRANTED)

    def _force_release_script(self) -> Eval[bool]:
        return scripts.lock_force_release(self.key, self._publish, self.channel)

    def _query_script(self, deadline: float = NEVER) -> Eval[LockStatus]:
        return scripts.lock_query(self.key, deadline=deadline)


class PassLocally(Release):
    """A release of *hold*, a hold of *lock*, while others wait in this client.

    The first of them becomes the holder. Now and then the lock is freed for all instead.

    Errors as for `Release`.

    Cost:
        One round trip. The waiter needs none.
    """

    __slots__ = ("_freeing", "_lock", "_offer", "_sent_at")

    def __init__(self, lock: Lock, hold: Hold) -> None:
        self.of(lock.session, hold)
        self._lock = lock
        self._freeing = False
        self._offer: _Offer | None = None

    def begin(self) -> Eval[int] | None:
        """Return the script that makes the first waiter the holder, or frees the lock for all."""
        call = super().begin()
        if call is None or self._depth > 0:
            return call
        lock, waiters = self._lock, self._lock.session.waiters
        now = self._sent_at = lock.session.clock()
        waiter = waiters.offer(lock.line, type(lock), now)
        successor = None if waiter is None else waiter.candidate
        if waiter is None or not isinstance(successor, Hold):
            self._freeing = True
            return call
        accept = partial(lock.accept_pass, successor, now)
        offer = self._offer = _Offer(waiters, waiter, successor, accept)
        # If nobody else waits here, the client leaves the server's queue.
        place = waiters.vacate(
            lock.line, but=waiter, holder=successor.holder, own=successor.step_out()
        )
        leaving = () if place is None else (place.queue, place.client)
        call = self._call = scripts.lock_pass_locally(
            *(lock.key, self._hold.holder, successor.holder, successor.lease), leaving=leaving
        )
        call.then = offer.answered
        return call

    def done(self, answer: int) -> bool:
        """Take the server's answer; return whether the release is complete."""
        over = super().done(answer)
        if over:
            self._conclude()
        return over and (self._offer is None or not self._offer.refused)

    def finish(self, failure: BaseException | None) -> Op[None]:
        """Carry the release through, and tell the waiter the outcome."""
        over = self._hold.state is ENDED
        try:
            if not over:
                yield from super().finish(failure)
        finally:
            self._conclude()
        offer = self._offer
        if offer is not None and offer.refused:
            # The waiter has left. Its undo may have come before the lock was given to it.
            call = self._lock.release_script(offer.successor, 0)
            yield from self._lock.session.clean_up(call, self._sent_at + offer.successor.lease)
        if over and failure is not None and not isinstance(failure, Exception):
            # The interruption came when the lock was released already.
            yield from failing(failure)

    def _conclude(self) -> None:
        if self._offer is not None:
            # Without a clear answer nobody here knows who holds the lock. Then the waiter asks.
            self._offer.conclude(given=self._found == PASSED)
        elif self._freeing:
            self._freeing = False
            session = self._lock.session
            session.waiters.freed(self._lock.line, ours=self._found == NEXT_IS_OURS)


class _Offer:
    """A lock that is given to the first local waiter.

    If the driver can, it tells the waiter as soon as the reply is read. Then the waiter's own next
    command is on its way before the former holder goes on.
    """

    __slots__ = ("_accept", "_end", "refused", "successor")

    def __init__(
        self, waiters: Waiters, waiter: Waiter, successor: Hold, accept: Callable[[], bool]
    ) -> None:
        self._end = partial(waiters.conclude, waiter)
        self._accept: Callable[[], bool] | None = accept
        self.successor = successor
        self.refused = False

    def answered(self, reply: object) -> None:
        """Take the server's undecoded *reply*; conclude if it says that the lock was given."""
        if reply == PASSED:
            self.conclude(given=True)

    def conclude(self, *, given: bool) -> None:
        """Make the waiter the holder if the lock was *given* to it; else make it ask.

        A lock that was given to a waiter that has left is *refused*. Only the first call counts.
        """
        accept, self._accept = self._accept, None
        if accept is not None:
            left = self._end(accept if given else None)
            self.refused = given and left
