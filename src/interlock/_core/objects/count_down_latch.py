"""The count-down latch: a string has the count. At 0 it is removed, and all waiters go on.

An open latch and a deleted one look alike: there is no key. So a script that ends a latch leaves a
mark for the waiters: "open ..." or "deleted ...". So a deletion is an error.

If the user's code names the count, each client sets it before its first call, once in the life of
the latch: a key tells that this was done, until the latch is deleted. A client that comes late does
not close it again. Java leaves no mark: a latch without a key and a mark counts as open.

Source: RCountDownLatch, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import GRACE, NEVER
from interlock._core.model.names import check_channel, latch_channel, latch_ending, latch_total
from interlock._core.objects.gate import Gate
from interlock._core.scripts.gate import LATCH_CHANGE, LATCH_COUNT, LATCH_QUERY
from interlock.errors import LatchDeletedError

if TYPE_CHECKING:
    from interlock._core.model.effects import Op, Script
    from interlock._core.objects.counter import Carried
    from interlock._core.scripts.gate import State

MAX_COUNT = 2**53
"""The largest count that a script counts exactly."""


class CountDownLatch(Gate):
    """One latch, for one client; its number is set once in its life."""

    kind = "latch"
    changes, query, spare = LATCH_CHANGE, LATCH_QUERY, 1
    besides = latch_ending, latch_total
    channel_of = staticmethod(latch_channel)
    counted, least, most = "counted events", 1, MAX_COUNT
    differs = (
        "latch {name!r} was set up with the count {there}, not {number} as count={number} says: "
        "delete() it to begin anew"
    )

    def check(self) -> None:
        session = self.session
        if session.outside.clustered and session.options.pubsub in ("auto", "sharded"):
            check_channel(self.key, self.channel)

    def script(self, how: str) -> Script[Any]:
        counts = how in ("set up", "down")
        return (LATCH_COUNT if counts else LATCH_CHANGE)[self.session.publish]

    # What users ask.

    def _to_set(self) -> str:
        """Return the count that this client has to set yet, as an argument of commands."""
        # One that has an idle time may have ended by itself.
        return self.makes if self.idle or self.unset else ""

    def prepare(self, until: float = NEVER) -> Op[None] | None:
        """Return what sets the count that the code names, unless this client has done that."""
        count = self._to_set()
        if not count:
            return None
        until = max(until, self.session.clock() + GRACE)
        return self.change("set up", count, then=self._told).rest(None, until)

    def _told(self, found: int) -> None:
        """Warn if the latch was set up with another count.

        Below 0 *found* is what is left of a count that another program has set.
        """
        self.compare(abs(found), exact=found > 0)

    def try_set_count(self, count: int) -> Carried[bool]:
        """Return the step that sets *count* unless the latch has one.

        Source:
            RCountDownLatch.trySetCount.
        """
        return self.change("make", self.checked(count))

    def count_down(self) -> Carried[int]:
        """Return the step that lowers the count by one, and opens the latch at 0.

        The named count is set first, unless this client has done that.

        Source:
            RCountDownLatch.countDown.
        """
        count = self._to_set()
        # Else the answer may come after a deletion, and tell nothing of what the code names.
        return self.change("down", count, then=self._told if count else None)

    def count(self) -> Op[int]:
        return (yield from self.state()).left

    def delete(self) -> Carried[bool]:
        """Return the step that removes the latch; its waiters get an error.

        Source:
            RCountDownLatch.delete.
        """
        self.note(self.standing, None)
        return self.change("delete", "")

    def lets(self, came: State, state: State, unseen: float) -> bool:
        """Return whether it is open, or was opened since a waiter *came*."""
        ending = state.mark if state.mark != came.mark else None
        if ending is not None and ending.startswith("deleted"):
            raise LatchDeletedError(
                f"latch {self.name!r} was deleted while it was waited for; it will not open",
                name=self.name,
            )
        if ending is None and state.left <= 0 and self.idle and unseen >= self.idle / 1000:
            raise LatchDeletedError(
                f"the idle time of latch {self.name!r} ended while it was waited for",
                name=self.name,
            )
        return super().lets(came, state, unseen)
