"""The group lock.

Many values of one group, all or none, in one hash. Redisson's getMultiLock(group, values).

Theory. A multi lock over a hundred names has a hundred keys. The values of one group are fields of
one hash, and one script takes them all. Every value has its own holder, expiry time and depth. So
holds of different values share the hash, and its TTL is the longest of theirs.

Rules:

* All times are the server's. Redisson's clients write times by their own clocks. The scripts
  compare those with the server's clock.
* Each group lock draws a number of its own, and another one whenever its owner's number has changed
  since. So if two holds of one owner want the same value, the second is refused like another
  owner's. Otherwise the release of one would free a value that the other still needs. An owner that
  would wait for itself gets an error at once. An owner that takes one group lock again and again
  keeps its number, and so its commands.
* In one client, waiters for the same values stand in one queue. Waiters for different values stand
  in different queues.

Rejected: re-entry by overlapping values, as Redisson has it. Each value would need a count of the
holds that it belongs to.

Source: RedissonFasterMultiLock, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.locks.lock_base import LockBase
from interlock._core.model import highway_hash, names
from interlock._core.model.effects import NEVER, Eval
from interlock._core.queue.lines import line_of, section
from interlock._core.scripts import group_lock as scripts
from interlock.errors import ReentryError
from interlock.options import check_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock._core.model.effects import Op
    from interlock._core.model.holds import Hold, Owner
    from interlock._core.scripts.lock import LockStatus
    from interlock._core.scripts.script import Grant
    from interlock._core.upkeep.session import Session


class GroupLock(LockBase):
    """Several values of one group. One owner at a time holds them.

    Args:
        session: the client's state.
        name: the group.
        values: what is locked in it; the order does not matter.
        reentrant: whether its owner may take the same values again.
    """

    kind = "group lock"
    repeats = True

    def __init__(
        self, session: Session, name: str, values: Iterable[str], *, reentrant: bool = True
    ) -> None:
        self.renewal = self._renew
        super().__init__(session, name, reentrant=reentrant)
        self._drawn = 0
        self.values = check_values(values)
        self.channel = names.lock_channel(self.key)
        self._fields = tuple(highway_hash.field(value) for value in self.values)
        self.hold_key = (self.key, self._fields)
        # The line of the waiters for the same values.
        self.line = section(line_of(self.channel, self.key), *self._fields)

    def acquire_script(
        self, hold: Hold, lease: float, depth: int, deadline: float
    ) -> Eval[Grant | float]:
        return scripts.group_lock_acquire(
            self.key, lease, hold.holder, depth, self._fields, deadline=deadline
        )

    def release_script(self, hold: Hold, depth: int) -> Eval[bool]:
        return scripts.group_lock_release(
            self.key, hold.holder, depth, self.session.publish, self.channel, self._fields
        )

    def _held_here(self) -> list[Hold]:
        return [hold for hold in self._sharing() if hold.valid(self.session.clock())]

    def _force_release_script(self) -> Eval[bool]:
        return scripts.group_lock_force_release(
            self.key, self.session.publish, self.channel, self._fields
        )

    def _query_script(self, deadline: float = NEVER) -> Eval[LockStatus]:
        return scripts.group_lock_query(self.key, self._fields, deadline=deadline)

    def _renew(
        self, keys: Sequence[str], lease: float, holders: Sequence[str], /, *, deadline: float
    ) -> Eval[list[bool]]:
        # All are holds of these values. The server knows at most one of them: the others are lost.
        return scripts.group_lock_renew(keys[0], lease, holders, self._fields, deadline=deadline)

    def _holder(self, owner: Owner) -> str:
        # Nobody else has the number that this very lock drew, even if other threads of the same
        # owner draw at the same time.
        number = self._drawn
        if number != owner.number:
            number = self._drawn = owner.renumber()
        return f"{self.session.client_id}:{number}"

    def _wait(self, hold: Hold, deadline: float) -> Op[bool]:
        owner, now = hold.owner(), self.session.clock()
        for other in self._sharing():
            if other is not hold and other.owner() is owner and other.valid(now):
                raise ReentryError(
                    f"{hold.label} holds some of the values of group lock {self.name!r} "
                    "by another lock and would wait for itself; take all of them by one group lock",
                    name=self.name,
                )
        return super()._wait(hold, deadline)

    def excludes(self, hold: Hold) -> bool:
        """Return whether *hold* has some of these values."""
        return hold in self._sharing()

    def _sharing(self) -> list[Hold]:
        """Return this client's holds that have some of these values, or all of them."""
        wanted = set(self._fields)
        return [
            hold
            for hold in self.session.holds.of_key(self.key)
            if isinstance(hold.core, GroupLock) and wanted.intersection(hold.core._fields)
        ]
