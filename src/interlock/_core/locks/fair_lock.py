"""The fair lock.

The first to ask gets it first. The server has a plain lock's hash, and a queue of its waiters.

Theory. Each waiter has a place of its own: its holder id in a list, and a deadline for it in a
sorted set. It also has a channel of its own. The server's queue decides whose turn it is, across
processes and languages and within one client. So local waiters do not queue up among themselves.
Each is alone on its channel, and asks for itself.

Rules:

* A waiter keeps its place by asking. It asks at least three times in `Options.fair_wait`, so a live
  one is never taken for dead. A dead one delays the others for no longer than that. All times are
  the server's.
* A waiter that stops waiting, for any reason, leaves the queue. The script for that also undoes an
  acquire, and running it twice changes nothing. If the script does not reach the server, the place
  ends at its deadline.
* That script may arrive late. So before it is sent, the owner draws a new number. Then the script
  does not hit a later place or hold.
* A single try takes no place in the queue, and overtakes no waiter that has one.

Source: RedissonFairLock, Redisson 4.7.0.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING

from interlock._core.locks.lock import Lock
from interlock._core.locks.lock_base import require_replicas
from interlock._core.model import names
from interlock._core.model.effects import NEVER
from interlock._core.queue.waiting import wait_in_queue
from interlock._core.scripts import fair_lock as scripts

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval, Op
    from interlock._core.model.holds import Hold
    from interlock._core.scripts.script import Grant
    from interlock._core.upkeep.session import Session


class FairLock(Lock):
    """A lock that one owner at a time holds, in the order in which they asked."""

    kind = "fair lock"
    repeats_for = (NEVER,)  # a single try takes no place in the queue
    may_start = False  # the queue is Redisson's

    def __init__(self, session: Session, name: str, *, reentrant: bool = True) -> None:
        super().__init__(session, name, reentrant=reentrant)
        self._keys = (self.key, names.fair_queue(self.key), names.fair_timeouts(self.key))

    @cached_property
    def _queue(self) -> scripts.Queue:
        # Before the first operation it is not known how messages are sent.
        session = self.session
        return scripts.Queue(self._keys, session.options.fair_wait, session.publish, self.channel)

    def acquire_script(
        self, hold: Hold, lease: float, depth: int, deadline: float
    ) -> Eval[Grant | float]:
        """Return the script that takes *hold* to *depth*, without taking a place in the queue."""
        return scripts.fair_lock_acquire(
            self._queue, lease, hold.holder, depth, enqueue=False, deadline=deadline
        )

    def _request(self, hold: Hold, deadline: float, now: float) -> Eval[Grant | float]:
        call = scripts.fair_lock_acquire(
            self._queue,
            hold.lease,
            hold.holder,
            1,
            enqueue=deadline > now,
            deadline=self.answer_by(deadline, now),
        )
        if self.session.replicas is not None:
            require_replicas(call, hold, self.session.replicas)
        return call

    def accept(self, hold: Hold, sent_at: float, answer: Grant | float) -> bool:
        if isinstance(answer, scripts.Queued):
            hold.uncount_try()
            hold.queue()  # however this acquire ends, it must give the place back
            return False
        return super().accept(hold, sent_at, answer)

    def release_script(self, hold: Hold, depth: int) -> Eval[bool]:
        """Return the script that takes *hold* down to *depth*; at 0 it leaves the queue, too."""
        return scripts.fair_lock_release(self._queue, hold.holder, depth)

    def _force_release_script(self) -> Eval[bool]:
        return scripts.fair_lock_force_release(self._queue)

    def _wait(self, hold: Hold, deadline: float) -> Op[bool]:
        channel = names.waiter_channel(self.channel, hold.holder)
        return wait_in_queue(self.session, channel, deadline, None, self._try, hold, deadline)
