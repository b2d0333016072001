"""The count-down latch.

RCountDownLatch of Redisson. A string is the count; at 0 it is removed and all who wait go on.

Theory. On Redis an open latch and a deleted one look alike: there is no key. So each of our
endings leaves a note for who waits, "open" or "deleted" with a mark that tells it from others. A
waiter remembers the note that it found when it came, and goes by a new one: it does not miss an
opening after which somebody set the count again at once, and it raises for a deletion.

Java leaves no note. What has no key and no note counts as open, as it does for Java.

Source: RCountDownLatch, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core import names
from interlock._core.effects import NEVER
from interlock._core.idempotency import IdempotentCalls, new_id
from interlock._core.scripts import count_down_latch as scripts
from interlock._core.waiting import wait_in_queue
from interlock.errors import ConfigError, LatchDeletedError
from interlock.options import check_name

if TYPE_CHECKING:
    from interlock._core.effects import Eval, Op, Step
    from interlock._core.idempotency import IdempotentCall
    from interlock._core.scripts.count_down_latch import LatchStatus
    from interlock._core.session import Session

MAX_COUNT = 2**53
"""What a script can count to."""
NOTE_TTL = 60.0
"""Seconds, besides two poll caps, for which an ending is noted.

By then every waiter that is alive has looked.
"""


def check_count(count: object) -> int:
    """Return *count* if a latch can have it.

    Raises:
        TypeError: unless it is an int.
        ConfigError: unless it is 1 to `MAX_COUNT`.
    """
    if not isinstance(count, int) or isinstance(count, bool):
        raise TypeError(f"a count must be an int, not {type(count).__name__}")
    if not 1 <= count <= MAX_COUNT:
        raise ConfigError(f"a count must be 1 to {MAX_COUNT}, not {count}")
    return count


class CountDownLatch:
    """The operations of one latch for one client.

    The public `CountDownLatch` tells errors and costs.
    """

    kind = "latch"

    def __init__(self, session: Session, name: str) -> None:
        self.name = check_name(name)
        self.key = session.key(name)
        self.channel = names.latch_channel(self.key)
        if session.clustered and session.options.pubsub in ("auto", "sharded"):
            names.check_channel(self.key, self.channel)
        self._session = session
        self._requests = IdempotentCalls(session, self.key)
        self._note_ttl = NOTE_TTL + 2 * session.options.poll_cap

    def try_set_count(self, count: int) -> Op[bool]:
        """Set *count* unless the latch has one; return whether it was set.

        Source:
            RCountDownLatch.trySetCount.
        """
        count, request = check_count(count), self._requests.begin()
        call = scripts.latch_try_set(
            self.key,
            request.key,
            request.old_latch,
            count,
            request.ttl,
            self._session.publish,
            self.channel,
        )
        was_set = yield from self._requests.send(request, call)
        self._requests.end(request)
        return was_set

    def count_down(self) -> Step[bool]:
        """Take one from the count, and open the latch at 0; nothing happens to one that is open.

        Source:
            RCountDownLatch.countDown.
        """
        return self._requests.carried_through(self._count_down_script)

    def _count_down_script(self, request: IdempotentCall) -> Eval[bool]:
        session = self._session
        return scripts.latch_count_down(
            self.key,
            request.key,
            request.old_latch,
            request.ttl,
            new_id(session),
            self._note_ttl,
            session.publish,
            self.channel,
        )

    def count(self) -> Op[int]:
        """Return what is left to be counted down.

        0 when it is open or was never set; one round trip.
        """
        return (yield from self._status()).count

    def wait(self, deadline: float) -> Op[bool]:
        """Wait until the latch is open or *deadline* passes; return whether it is open.

        Source:
            RCountDownLatch.await.
        """
        # Whoever comes looks once, however many wait here: what ended before that does not
        # concern it.
        found = yield from self._status(deadline)
        if found.count <= 0:
            return True
        waiting = wait_in_queue(
            self._session, self.channel, deadline, None, self._look, found.ending, deadline
        )
        return (yield from waiting)

    def delete(self) -> Op[bool]:
        """Remove the latch; who waits for it is told by an error. Return whether there was one.

        Source:
            RCountDownLatch.delete.
        """
        session = self._session
        call = scripts.latch_delete(
            self.key, new_id(session), self._note_ttl, session.publish, self.channel
        )
        return (yield from session.persist(call))

    def _look(self, ending: str | None, deadline: float) -> Op[float | None]:
        """Look once; None when the latch is open, or was since its last ending was *ending*."""
        status = yield from self._status(deadline)
        news = status.ending if status.ending != ending else None
        if news is not None and news.startswith("deleted"):
            raise LatchDeletedError(
                f"latch {self.name!r} was deleted while it was waited for; it will not open",
                name=self.name,
            )
        return NEVER if news is None and status.count > 0 else None

    def _status(self, deadline: float = NEVER) -> Op[LatchStatus]:
        return (yield from self._session.persist(scripts.latch_query(self.key, deadline=deadline)))
