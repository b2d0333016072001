"""The count-down latch.

Redisson's RCountDownLatch. A string has the count. At 0 it is removed, and all waiters go on.

Theory. On Redis an open latch and a deleted one look alike: there is no key. So a script that ends
a latch leaves a note for the waiters: "open" or "deleted", with a mark that is new each time. A
waiter remembers the note that it found when it came. A new note tells it how the latch ended. So it
does not miss an opening, even if somebody sets the count again at once. For a deletion it raises an
error.

If the user's code names the count, each client sets it before its first call, once in the life of
the latch. A key tells that this was done. It stays after the latch has opened, so that a client
that comes late does not close it again. Only a deletion removes it.

Java leaves no note. A latch without a key and without a note counts as open, as it does for Java.

Source: RCountDownLatch, Redisson 4.7.0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interlock._core.model import names
from interlock._core.model.effects import NEVER
from interlock._core.objects.numbered import Numbered
from interlock._core.queue.lines import section
from interlock._core.queue.waiting import Turn, wait_in_queue
from interlock._core.scripts import count_down_latch as scripts
from interlock._core.upkeep.idempotency import new_id
from interlock.errors import ConfigError, LatchDeletedError

if TYPE_CHECKING:
    from interlock._core.model.effects import Eval, Op, Step
    from interlock._core.objects.lifetime import Kept
    from interlock._core.objects.limits import Limits
    from interlock._core.scripts.count_down_latch import LatchStatus
    from interlock._core.upkeep.idempotency import IdempotentCall
    from interlock._core.upkeep.session import Session

MAX_COUNT = 2**53
"""The largest count that a script counts exactly."""
NOTE_TTL = 60.0
"""Seconds, besides two poll caps, for which the note of an ending is kept.

By then every live waiter has looked.
"""


def check_count(count: object) -> int:
    """Return *count* if a latch can have it.

    Raises:
        TypeError: it is not an int.
        ConfigError: it is not between 1 and `MAX_COUNT`.
    """
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"a count must be an int, not {type(count).__name__}")
    if not 1 <= count <= MAX_COUNT:
        raise ConfigError(f"a count must be 1 to {MAX_COUNT}, not {count}")
    return count


class CountDownLatch(Numbered):
    """The operations of one latch for one client; the arguments are those of `Numbered`.

    The public `CountDownLatch` lists errors and costs.
    """

    kind = "latch"

    def __init__(
        self,
        session: Session,
        name: str,
        count: int | None = None,
        limits: Limits | None = None,
        kept: Kept | None = None,
    ) -> None:
        count = None if count is None else check_count(count)
        super().__init__(session, name, count, limits, kept, names.latch_total, names.latch_channel)
        if session.clustered and session.options.pubsub in ("auto", "sharded"):
            names.check_channel(self.key, self.channel)
        self._note_ttl = NOTE_TTL + 2 * session.options.poll_cap

    def _set_number(self, deadline: float) -> Op[bool]:
        count, limits = self.named, self._limits
        assert count is not None
        found = yield from self.requests.ask(scripts.latch_set_up, count, deadline)
        # Below 0: what is left of a count that another program has set.
        if (found > 0 and found != count) or -found > count:
            limits.differs(self.name, abs(found), count)
        limits.note(self.key, count)
        return found == count

    def try_set_count(self, count: int) -> Op[bool]:
        """Set *count* unless the latch has one; return whether it was set.

        Source:
            RCountDownLatch.trySetCount.
        """
        was_set = yield from self.requests.ask(scripts.latch_try_set, check_count(count))
        _ = yield from self._extend()
        return was_set

    def count_down(self) -> Step[bool]:
        """Lower the count by one, and open the latch at 0; an open latch does not change.

        The count is set first, unless it is known. If the client cannot do that before, the script
        does it.

        Source:
            RCountDownLatch.countDown.
        """
        unset = self.unset
        count = self.named if unset else None
        step = self.requests.carried_through(self._count_down_script, count)
        step.first = self.set_up() if unset else None
        return step

    def _count_down_script(self, request: IdempotentCall, count: int | None) -> Eval[bool]:
        session = self.session
        return scripts.latch_count_down(
            *(self.key, request, new_id(session), self._note_ttl, session.publish, self.channel),
            count=count,
            ends=0.0 if self._lifetime is None else self._lifetime.seconds,
        )

    def count(self) -> Op[int]:
        """Return the present count.

        It is 0 if the latch is open or was never set. One round trip.
        """
        return (yield from self._status()).count

    def wait(self, deadline: float) -> Op[bool]:
        """Wait until the latch is open or *deadline* passes; return whether it is open.

        Source:
            RCountDownLatch.await.
        """
        # A newcomer looks once, even if others wait here. An earlier ending does not concern it.
        found = yield from self._status(deadline, patient=True)
        if found.count <= 0:
            yield from self._check_end(deadline)
            return True
        # As for an event: one that found an earlier ending may go on, and must not stand behind one
        # that still waits.
        line = section(self.channel, found.ending or "")
        waiting = wait_in_queue(
            self.session,
            line,
            deadline,
            None,
            self._look,
            found.ending,
            deadline,
            turn=Turn(wish=partial(self.session.wish, self.key)),
            interval=self._interval,
        )
        return (yield from waiting)

    def _interval(self) -> float:
        """Return the seconds between looks: several in the time after which it would end."""
        interval, lifetime = self.session.poll_interval(), self._lifetime
        if lifetime is None:
            return interval
        return min(interval, lifetime.seconds / 4)

    def delete(self) -> Op[bool]:
        """Remove the latch; its waiters get an error. Return whether there was a latch.

        Source:
            RCountDownLatch.delete.
        """
        session = self.session
        self._limits.forget(self.key)
        call = scripts.latch_delete(
            self.key, new_id(session), self._note_ttl, session.publish, self.channel
        )
        return (yield from session.persist(call))

    def _look(self, ending: str | None, deadline: float) -> Op[float | None]:
        """Look once; return None if the latch is open, or was opened since the note *ending*."""
        lifetime = self._lifetime
        if lifetime is not None and lifetime.due:
            _ = yield from lifetime.extend(deadline)
        status = yield from self._status(deadline)
        news = status.ending if status.ending != ending else None
        if news is not None and news.startswith("deleted"):
            raise LatchDeletedError(
                f"latch {self.name!r} was deleted while it was waited for; it will not open",
                name=self.name,
            )
        if news is None and status.count > 0:
            return NEVER
        if news is None:
            yield from self._check_end(deadline)
        return None

    def _check_end(self, deadline: float) -> Op[None]:
        """Raise LatchDeletedError if the latch is not open, but has come to its end.

        That is so only if this client could not look for as long as the latch may be idle.
        """
        lifetime = self._lifetime
        if lifetime is None or not lifetime.over:
            return
        if not (yield from lifetime.extend(deadline)):
            raise LatchDeletedError(
                f"the idle time of latch {self.name!r} ended while it was waited for",
                name=self.name,
            )

    def _status(self, deadline: float = NEVER, *, patient: bool = False) -> Op[LatchStatus]:
        call = scripts.latch_query(self.key, deadline=deadline)
        call.patient = patient
        return (yield from self.session.persist(call))
