"""The read/write lock.

Many readers or one writer hold it. One hash serves both sides. Each entry of a reader also has a
key, whose TTL is the lease of that entry.

Theory. A hash has one TTL, but each reader has a lease of its own. So every entry of a reader is a
key that expires by itself. The TTL of the hash is the longest TTL of these keys. An acquire or a
release removes the readers whose keys are all gone. So a dead reader blocks nobody beyond its
lease. One reader's shorter lease or release does not shorten another reader's lease.

Rules:

* The two sides are two locks of one name: each has its own hold, depth, lease and renewal.
* Downgrade: the holder of the write lock may take the read lock too, at once and ahead of all
  waiters. Then it may release the write lock, and waiting readers are told. Here too, the client's
  table decides whether an acquire is a re-entry. The script gets the field of the owner's write
  hold, because its number may differ from that of the new read hold.
* Upgrade: an owner that holds only the read lock may not take the write lock, because it would
  wait for itself. That is an error at once.
* Both sides wait in one local queue, in the order in which they came. So within a client, readers
  that come later do not starve a waiting writer. When a reader enters, the next waiter asks at
  once.
* A client that waits to write stands in the server's queue. A release by the writer, or by the
  last reader, gives the lock to the first client there: the claim is a writer's. If a writer waits
  alone in its client, the client stands there in its name, and it starts without asking. Readers
  that come later stand behind it in the client, too.
* A client that waits only to read does not stand in the server's queue. It listens on the channel,
  as Java does. Every second release is left to clients that only listen.
* A client that has a place uses it to read, too: its claim becomes a reader's, and all readers are
  told. So it needs no second place, and its turn comes in the queue's order.

Rejected: a mark in the hash for waiting writers. Java's readers look only at the mode, and they
count the fields of the hash.

Source: RedissonReadLock and RedissonWriteLock, Redisson 4.7.0.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.locks.lock_base import LockBase, require_replicas
from interlock._core.locks.started_lock import StartedLock
from interlock._core.model import names
from interlock._core.model.effects import NEVER, Eval
from interlock._core.queue.lines import line_of
from interlock._core.scripts import lock as lock_scripts
from interlock._core.scripts import read_write_lock as scripts
from interlock._core.upkeep.idempotency import once
from interlock.errors import UpgradeError

if TYPE_CHECKING:
    from interlock._core.model.effects import Op
    from interlock._core.model.holds import Hold, Owner
    from interlock._core.queue.places import Place
    from interlock._core.scripts.lock import LockStatus
    from interlock._core.scripts.script import Grant
    from interlock._core.upkeep.session import Session


class _Side(LockBase):
    """What the two sides of a read/write lock share."""

    side: int
    repeats = True

    def __init__(self, session: Session, name: str) -> None:
        super().__init__(session, name)
        self.hold_key = (self.key, self.side)
        self.channel = names.read_write_channel(self.key)
        self.line = line_of(self.channel, self.key)
        self._prefix = names.read_entries(self.key)

    def request(self, hold: Hold, deadline: float, now: float) -> Eval[Grant | float]:
        """Return the script that tries to get *hold*.

        If the owner also has a hold of the other side, the command depends on that hold. Such an
        owner need not wait, and the client's place belongs to those who do.
        """
        if self._valid_hold(scripts.WRITER - self.side, hold) is not None:
            call = self.acquire_script(hold, hold.lease, 1, self.answer_by(deadline, now))
            call.patient = True
            if self.session.replicas is not None:
                require_replicas(call, hold, self.session.replicas)
            return call
        return super().request(hold, deadline, now)

    def force_release(self) -> Op[bool]:
        """Free this side, no matter who holds it.

        Returns:
            True when it was locked.

        Cost:
            Two round trips, three if another client holds it; one if nobody does.

        Source:
            RedissonReadLock.forceUnlock and RedissonWriteLock.forceUnlock.
        """
        session = self.session
        # The script removes the whole key: a writer also loses what it reads.
        held = self._held_here()
        if not (yield from self.leave_notes(held)):
            return False
        call = once(session, self.key, self._force_release_script())
        released = yield from session.persist(call)
        if released:
            for hold in held:
                session.lose(hold, "force-released")
            session.events.force_released(self.name, self.kind)
        return released or call.unknown > 0

    def status(self) -> Op[LockStatus]:
        """Ask who holds this side, how deep and for how long; one round trip."""
        call = scripts.read_write_lock_query(self.key, self.side)
        return (yield from self.session.persist(call))

    def leave_script(self, place: Place) -> Eval[int]:
        return scripts.write_lock_release(
            *(self.key, place.holder or names.writer(f"{place.client}:0"), 0),
            *(self.session.publish, self.channel),
            leaving=(place.client,),
        )

    def _force_release_script(self) -> Eval[bool]:
        return scripts.read_write_lock_force_release(
            self.key, self.side, self.session.publish, self.channel
        )

    def _query_script(self, deadline: float = NEVER) -> Eval[LockStatus]:
        # It tells a refused waiter the holder, which may be of either side.
        return scripts.read_write_lock_query(self.key, scripts.BOTH, deadline=deadline)

    def excludes(self, hold: Hold) -> bool:
        """Return whether *hold* is of either side, unless both only read."""
        core = hold.core
        if not isinstance(core, _Side) or core.session is not self.session:
            return False
        return core.key == self.key and not (self.shared and core.shared)

    def _valid_hold(self, side: int, hold: Hold) -> Hold | None:
        """Return the valid hold of *side* that the owner of *hold* has, or None."""
        owner = hold.owner()
        held = None if owner is None else self.session.holds.get((self.key, side), owner)
        return held if held is not None and held.valid(self.session.clock()) else None


class ReadLock(_Side):
    """The side that many owners may hold at a time."""

    kind = "read lock"
    shared = True
    side = scripts.READERS
    renewal = staticmethod(scripts.read_lock_renew)

    def acquire_script(
        self, hold: Hold, lease: float, depth: int, deadline: float
    ) -> Eval[Grant | float]:
        written = self._valid_hold(scripts.WRITER, hold)
        writer = "" if written is None else written.holder
        return scripts.read_lock_acquire(
            *(self.key, self._prefix, lease, hold.holder, depth, writer),
            publish=self.session.publish,
            deadline=deadline,
        )

    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        return scripts.read_lock_release(
            self.key,
            self._prefix,
            hold.holder,
            depth,
            hold.depth,
            self.session.publish,
            self.channel,
        )

    def may_try_first(self, hold: Hold, deadline: float) -> bool:
        # The waiters may wait for this very owner to stop writing.
        first = super().may_try_first(hold, deadline)
        return first or self._valid_hold(scripts.WRITER, hold) is not None

    def _holder(self, owner: Owner) -> str:
        if not names.shares_channels(self.key):
            return super()._holder(owner)
        # The lock `a` has the entries of `{a}`. So no holder of the one may be one of the other.
        _ = owner.renumber()
        holder = super()._holder(owner)
        _ = owner.renumber()
        return holder

    def _request(self, hold: Hold, deadline: float, now: float) -> Eval[Grant | float]:
        call = super()._request(hold, deadline, now)
        if call.spare_args:
            scripts.tell_readers(call, self.channel)
        return call


class WriteLock(_Side, StartedLock):
    """The side that one owner holds alone: no other owner has either side then."""

    kind = "write lock"
    side = scripts.WRITER
    renewal = staticmethod(lock_scripts.lock_renew)

    def acquire_script(
        self, hold: Hold, lease: float, depth: int, deadline: float
    ) -> Eval[Grant | float]:
        """Return the script that takes *hold* to *depth*.

        Raises:
            UpgradeError: its owner holds the read lock.
        """
        if depth == 1:
            self._check_upgrade(hold)
        return scripts.write_lock_acquire(self.key, lease, hold.holder, depth, deadline=deadline)

    def new_hold(self, owner: Owner, lease: float | None) -> Hold:
        """Create a hold that is not in the table yet; see `LockBase.new_hold`.

        Raises:
            UpgradeError: *owner* holds the read lock.
        """
        hold = super().new_hold(owner, lease)
        self._check_upgrade(hold)
        return hold

    def _check_upgrade(self, hold: Hold) -> None:
        """Check that the owner of *hold* does not hold the read lock.

        Raises:
            UpgradeError: it does, and would wait for itself.
        """
        if self._valid_hold(scripts.READERS, hold) is not None:
            raise UpgradeError(
                f"{hold.label} holds the read lock {self.name!r} and would wait for itself; "
                "release that first, or take the write lock from the start",
                name=self.name,
            )

    def release_script(self, hold: Hold, depth: int) -> Eval[int]:
        read = self._valid_hold(scripts.READERS, hold)
        return scripts.write_lock_release(
            *(self.key, hold.holder, depth, self.session.publish, self.channel),
            reads=None if read is None else (read.holder, read.depth),
        )

    def _holder(self, owner: Owner) -> str:
        return names.writer(super()._holder(owner))
