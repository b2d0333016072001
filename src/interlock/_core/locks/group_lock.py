"""The group lock: many values of one group, all or none, in one hash.

A multi lock over a hundred names has a hundred keys. The values of one group are fields of one hash,
and one script takes them all. Each value has its holder, expiry time and depth, all times by the
server's clock. So holds of different values share the hash, and its TTL is the longest of theirs.

Nobody stands in a queue of the server. All waiters of one client for one group listen to one channel:
a message lets the oldest one ask for each set of values. Who comes when others here wait for the same
values stands behind them, and asks when it is the oldest.

Rejected: re-entry by overlapping values, as Redisson has it. Each value would need a count of the
holds that it belongs to.

Source: RedissonFasterMultiLock, Redisson 4.7.0.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Any

from interlock._core.locks.base import Lock
from interlock._core.model import highway_hash
from interlock._core.model.effects import Eval
from interlock._core.model.forms import HOLE, Form
from interlock._core.queue.places import Line
from interlock._core.scripts import group_lock as scripts
from interlock._core.scripts.replies import milliseconds
from interlock.errors import ReentryError
from interlock.options import check_values

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from interlock._core.model.hold import Hold, Owner
    from interlock._core.scripts.locks import LockStatus
    from interlock._core.upkeep.session import Session


class Crowd(Line):
    """The waiters of one client for one group: the oldest for each set of values looks."""

    kind_of = attrgetter("lock.place")


class GroupLock(Lock):
    """Several values of one group. One owner at a time holds them.

    Args:
        values: what is locked in it; the order does not matter.
    """

    kind = "group lock"
    releases = scripts.GROUP_RELEASE
    queues = False
    in_turn = True
    line = Crowd

    def __init__(
        self,
        session: Session,
        name: str,
        key: str,
        *,
        values: Iterable[str],
        reentrant: bool = True,
    ) -> None:
        self.values = check_values(values)
        self._fields = tuple([highway_hash.field(value) for value in self.values])
        super().__init__(session, name, key, reentrant=reentrant)
        self.queue = ""  # that of the plain lock
        # The values first: so no name can be a part of it that looks like another lock's place.
        self.place = self.renewed_with = " ".join([*self._fields, self.place])

    def channels(self, client: str) -> tuple[str, ...]:
        del client
        return (self.channel,)

    # The commands.

    def _entering(self, lease: float, depth: int) -> Form:
        args: tuple[str | int, ...] = (milliseconds(lease), HOLE, depth, *self._fields)
        return Form(scripts.GROUP_ACQUIRE, (self.key,), args)

    def _leaving(self, depth: int, how: str) -> Form:
        return self._form(self.releases, HOLE, depth, self.channel, how, *self._fields)

    def renewing(self, group: Sequence[Hold], lease: float) -> Eval[list[bool]]:
        holders = [hold.holder for hold in group]
        args: tuple[str | int, ...] = milliseconds(lease), len(holders), *holders, *self._fields
        return Eval(scripts.GROUP_RENEW, (self.key,), args)

    def state(self) -> Eval[LockStatus]:
        """Return the script that tells who holds some of the values; the depth 0 means not all."""
        return Eval(scripts.GROUP_QUERY, (self.key,), self._fields)

    # The steps of an acquire.

    def new_hold(self, owner: Owner, lease: float | None) -> Hold:
        for hold in owner.table.values():
            if self.excludes(hold) and hold.valid(self.session.clock()):
                raise ReentryError(
                    f"{owner.label} holds some of the values of group lock {self.name!r} "
                    "by another lock and would wait for itself; take all of them by one group lock",
                    name=self.name,
                )
        return super().new_hold(owner, lease)

    def first(self, hold: Hold, deadline: float) -> Eval[Any] | None:
        """Return the first try to acquire *hold*; None if it stands behind others, or `attempt` makes it."""
        session = self.session
        line = session.lines.get(self.channel)
        if line is None or deadline <= (now := session.clock()) or not self._waiters(line):
            return super().first(hold, deadline)
        session.live[hold] = None
        place = session.queues.stand(hold)
        if self._waiters(line) > 1:  # still others, now that whoever leaves rings this one
            place.sent = hold.sent_at = now  # as if it had been refused
        return None

    def _waiters(self, line: Line) -> int:
        return [waiter.lock.place for waiter in list(line.waiters)].count(self.place)

    def excludes(self, hold: Hold) -> bool:
        lock = hold.lock
        return (
            isinstance(lock, GroupLock)
            and lock.session is self.session
            and lock.key == self.key
            and not set(lock._fields).isdisjoint(self._fields)
        )
