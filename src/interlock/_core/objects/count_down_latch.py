"""The count-down latch: a string has the count. At 0 it is removed, and all waiters go on.

An open latch and a deleted one look alike: there is no key. So a script that ends a latch leaves a
note for the waiters: "open" or "deleted", with a mark that is new each time. A waiter remembers the
note that it found when it came. So it does not miss an opening, even if somebody sets the count
again at once, and a deletion is an error.

If the user's code names the count, each client sets it before its first call, once in the life of
the latch: a key tells that this was done, until the latch is deleted. A client that comes late does
not close it again. Java leaves no note: a latch without a key and a note counts as open.

Source: RCountDownLatch, Redisson 4.7.0.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from interlock._core.model.effects import Eval, Op
from interlock._core.model.forms import HOLE, Form
from interlock._core.model.names import check_channel, latch_channel, latch_ending, latch_total
from interlock._core.objects.gate import Gate
from interlock._core.objects.named import Named
from interlock._core.scripts import count_down_latch as scripts
from interlock._core.scripts.count_down_latch import LatchStatus
from interlock.errors import ConfigError, LatchDeletedError

if TYPE_CHECKING:
    from interlock._core.objects.counter import Carried
    from interlock._core.upkeep.session import Session

MAX_COUNT = 2**53
"""The largest count that a script counts exactly."""


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


class CountDownLatch(Gate[LatchStatus]):
    """One latch, for one client.

    Args:
        session: the client's state.
        name: what the user calls it.
        key: of the count.
        count: what to set once in its life; None to set nothing.
        named: what the client knows of such counts.
        idle: seconds after its last use when it ends; 0 for never.
    """

    kind = "latch"

    def __init__(
        self,
        session: Session,
        name: str,
        key: str,
        count: int | None = None,
        named: Named | None = None,
        idle: float = 0.0,
    ) -> None:
        super().__init__(session, name, key, idle)
        self._named_count = None if count is None else check_count(count)
        self._known = named or Named()
        self.channel = latch_channel(key)
        self._total, self._ending = latch_total(key), latch_ending(key)
        if session.outside.clustered and session.options.pubsub in ("auto", "sharded"):
            check_channel(key, self.channel)

    # The commands.

    def _setting_up(self, request: str) -> Form:
        script, count = scripts.LATCH_SET_UP[self.session.publish], self._named_count or 0
        args = (HOLE, count, self.ttl, self.idle, self.channel)
        return Form(script, (self.key, request, self._total), args)

    def _setting(self, count: int, request: str) -> Form:
        script, args = scripts.LATCH_TRY_SET, (HOLE, count, self.ttl, self.idle, self.channel)
        return Form(script[self.session.publish], (self.key, request, self._total), args, 1)

    def _counting_down(self, count: int | str, request: str) -> Form:
        script, client = scripts.LATCH_COUNT_DOWN[self.session.publish], self.session.client_id
        args = (HOLE, self.ttl, client, self.note_ttl, self.channel, count, self.idle)
        return Form(script, (self.key, request, self._ending, self._total), args, 1)

    def _deleting(self, request: str) -> Form:
        script, client = scripts.LATCH_DELETE[self.session.publish], self.session.client_id
        args = (HOLE, self.ttl, client, self.note_ttl, self.channel)
        return Form(script, (self.key, request, self._ending, self._total), args, 1)

    def looking(self) -> Eval[LatchStatus]:
        """Return the script that tells the count, and how the latch ended last."""
        keys = (self.key, self._ending, self._total)
        return Eval(scripts.LATCH_QUERY, keys, (self.idle,), spare_keys=1)

    # What users ask.

    def _unset(self) -> int | None:
        """Return the count that this client has to set yet."""
        count = self._named_count
        if count is None or self.idle:  # it may have ended by itself
            return count
        return None if self._known.known(self.key, count) else count

    def prepare(self) -> Op[None] | None:
        """Return what sets the count that the code names, unless this client has done that."""
        return None if self._unset() is None else self._set_up()

    def _set_up(self) -> Op[None]:
        self._told((yield from self.sure(("set up",), self._setting_up)))

    def _told(self, found: int) -> None:
        """Warn if the latch was set up with another count.

        Below 0 *found* is what is left of a count that another program has set.
        """
        count = self._named_count
        assert count is not None
        if self._known.known(self.key, count):
            return
        self._known.note(self.key, count)
        if (found > 0 and found != count) or -found > count:
            self._known.differs(self.name, abs(found), count)

    def try_set_count(self, count: int) -> Carried[bool]:
        """Return the step that sets *count* unless the latch has one.

        Source:
            RCountDownLatch.trySetCount.
        """
        count = check_count(count)
        return self.carried(("set", count), partial(self._setting, count))

    def count_down(self) -> Carried[int]:
        """Return the step that lowers the count by one, and opens the latch at 0.

        The named count is set first, unless this client has done that.

        Source:
            RCountDownLatch.countDown.
        """
        count = self._unset()
        then = None if count is None else self._told
        make = partial(self._counting_down, "" if count is None else count)
        return self.carried(("down", count), make, then)

    def count(self) -> Op[int]:
        """Return the present count; 0 if the latch is open or was never set."""
        return (yield from self.state()).left

    def delete(self) -> Carried[bool]:
        """Return the step that removes the latch; its waiters get an error.

        Source:
            RCountDownLatch.delete.
        """
        self._known.forget(self.key)
        return self.carried(("delete",), self._deleting)

    # What waiters find.

    def is_open(self, state: LatchStatus) -> bool:
        """Return whether nobody who comes has to wait."""
        return state.left <= 0

    def lets(self, came: LatchStatus, state: LatchStatus, unseen: float) -> bool:
        """Return whether it is open, or was opened since a waiter *came*."""
        ending = state.ending if state.ending != came.ending else None
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
        return ending is not None or state.left <= 0
