# Generated from interlock/asyncio/lock.py by tools/make_sync.py; change that file.
"""What every lock-like has: Python's own vocabulary over an operation of the core."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from contextlib import suppress
from functools import partial
from threading import get_ident
from typing import TYPE_CHECKING, Never

from interlock._core.locks.lock_base import LockBase, Refused
from interlock._core.model.holds import ENDED, HELD, LOST
from interlock._core.model.no_hold import NoHold
from interlock._drivers.block import Block, ByHand, entered
from interlock._drivers.blocking import acquire_for, change_hold, end_block, tell_holder
from interlock._drivers.blocking_block import exits
from interlock._drivers.flow import current_owner
from interlock._hints import hints, told, unexpected
from interlock._misuse import check_long_lease
from interlock._traceback import shorten
from interlock.errors import ConfigError, InterlockError, NotHeldError
from interlock.options import (
    FOREVER,
    check_lease,
    check_reason,
    check_text,
    check_timeout,
    lease_of,
)
from interlock.sync.hold import Hold, of_block
from interlock.sync.trying import Trying

if TYPE_CHECKING:
    from interlock._core.locks.composite import CompositeLock
    from interlock._core.model.effects import Step
    from interlock._core.model.holds import AnyHold, Owner
    from interlock._drivers.protocol import BlockingDriver
    from interlock.options import Duration


@hints("client.lock(name)")
class Lock:
    """A reentrant lock, shared with Java's RLock; made by `Client.lock`.

    Its owner is the thread that acquired it, in its present context. A child thread is another one.

    Attributes:
        name: what it is called.
    """

    __slots__ = (
        "__weakref__",
        "_by_hand",
        "_core",
        "_driver",
        "_lease",
        "_parts",
        "_taken",
        "_timeout",
        "name",
    )

    def __init__(
        self,
        driver: BlockingDriver,
        core: LockBase | CompositeLock,
        *,
        timeout: Duration | None = None,
        lease: Duration | None = None,
    ) -> None:
        self._driver = driver
        self._core = core
        self._timeout = check_timeout(blocking=True, timeout=timeout)
        self._lease = lease_of(lease, driver)
        # Python 3.11 is slow to look up an attribute of a class with `__getattr__` (`hints`). So
        # each call looks up one: 8 looks fewer are 5 % of the instructions of a pair.
        self._parts = driver, core, self._timeout, self._lease
        self._taken: AnyHold | None = None  # by hand, last
        self.name = core.name
        self._by_hand: ByHand[Block] = ByHand()

    def __repr__(self) -> str:
        hold = None
        with suppress(RuntimeError):  # there may be no owner here
            hold = self.hold
        state = "not held here" if hold is None else repr(hold)
        return f"<{type(self).__name__} {self.name!r} {state}>"

    @told
    def acquire(
        self,
        blocking: bool = True,
        timeout: Duration | None = None,
        *,
        lease: Duration | None = None,
        **_foreign: Never,
    ) -> bool:
        """Acquire, waiting as long as allowed.

        Args:
            blocking: False for one try.
            timeout: seconds to wait; None for the one given at making, or else for ever.
            lease: seconds after which it ends by itself; None for the one given at making, or else
                a hold that is renewed until it is released.

        Returns:
            Whether it is held now.

        Raises:
            ReentryError: it is not reentrant and this owner holds it. Or only this thread could end
                the wait, as in a thread whose event loop runs in the thread that holds it.
            HoldLostError: this owner has lost it and has not released it. A hold whose own
                *lease* ran out does not count, unless a block is still inside.
            ReplicationError: too few replicas acknowledged it, and `Options.replicas` requires
                them; it is given back.

        Cost:
            One round trip when it is free.
        """
        if _foreign:
            raise unexpected(self.acquire, _foreign)
        driver, core, limit, given = self._parts
        if timeout is not None or blocking is not True:
            limit = check_timeout(blocking, timeout)
        owner = current_owner()
        deadline = FOREVER if limit == FOREVER else driver.session.clock() + limit
        seconds = given if lease is None else lease_of(lease, driver)
        try:
            hold = driver.perform(core.acquire(owner, deadline, seconds))
        except BaseException as error:
            shorten(error)
            raise
        if hold is None:
            return False
        if not hold.owned:
            hold.own()  # a hold that was only a block's is this owner's from now on
        if owner.in_job:
            hold.stay_with(weakref.ref(self), owner.place_of_call())
        self._taken = hold
        return True

    @told
    def release(self, **_foreign: Never) -> None:
        """Go down by one depth; free the lock at 0.

        Raises:
            NotHeldError: another owner holds it, or nobody; nothing was changed.
            HoldLostError: it was lost before.
            ServerUnavailableError: no reply; it may be tried again, and is not renewed any more.

        Cost:
            One round trip, and another one to name the present holder in NotHeldError.
        """
        if _foreign:
            raise unexpected(self.release, _foreign)
        driver, core, _, _ = self._parts
        taken = self._taken
        # To look who calls takes as long as all that is saved here, and a thread with one owner may
        # release what that has: its contexts may do so for each other.
        owner = None if taken is None or taken.state is not HELD else taken.owner()
        if taken is not None and owner is not None and owner.alone_in == get_ident():
            step = taken.release()
        else:
            owner = current_owner()
            step = core.release(owner)
            if type(step) is Refused:
                step = self._release_taken(owner) or step
        try:
            driver.perform(step)
        except InterlockError as error:
            if isinstance(error, NotHeldError):
                tell_holder(driver, core, error)
            shorten(error)
            raise

    def _release_taken(self, owner: Owner) -> Step[None] | None:
        """Return the release of what this object acquired by hand, for *owner*, who has nothing.

        It may have been a job of a pool that is over, or *owner* itself: then the hold was lost,
        and nobody remembers it but this object.
        """
        taken, me = self._taken, weakref.ref(self)
        if taken is None:
            return None
        if not taken.kept():  # several jobs may have taken a read lock
            others = self._driver.session.holds.snapshot()
            taken = next((each for each in others if me in each.handles and each.kept()), taken)
        if taken.kept():
            return taken.release() if taken.left_to(me) else None
        self._taken = None
        return taken.release() if taken.state == LOST and taken.owner() is owner else None

    def __enter__(self) -> Hold:
        driver, core, limit, lease = self._parts
        block = entered(self)
        owner = current_owner()
        if block is not None:
            block.owner = owner
        deadline = FOREVER if limit == FOREVER else driver.session.clock() + limit
        step = core.acquire(owner, deadline, lease)
        try:
            hold = acquire_for(driver, step, self._entered, block, self.name)
            if hold is None:
                raise driver.run(self._core.refusal(limit))  # noqa: TRY301 - see `shorten`
        except BaseException as error:
            shorten(error)
            raise
        return hold

    def _entered(self, block: Block | None, hold: AnyHold) -> Hold:
        """Keep *hold* for *block*, or until its owner leaves by hand."""
        if block is None:
            self._enter_by_hand(current_owner(), hold)
        else:
            block.got = hold
            hold.hand(block.handle)
        return of_block(self._driver, hold, block)

    def trying(self, timeout: Duration = 0, *, lease: Duration | None = None) -> Trying[Hold]:
        """Return a block that is entered whether or not the lock is acquired.

        For example ``with lock.trying(timeout=1) as hold: if hold: ...``. Leaving the block
        releases the lock. The hold is empty and falsy if the lock was not acquired, and its
        ``holder`` tells who holds the lock, if that is known. Nothing is sent before the block,
        which raises as `acquire` does.

        Cost:
            One round trip when it is free; one more to ask for the holder when it is not acquired.
        """
        limit = check_timeout(blocking=True, timeout=timeout)
        seconds = self._lease if lease is None else lease_of(lease, self._driver)
        return Trying(partial(self._try, limit, seconds))

    def _try(self, limit: float, lease: float | None, block: Block | None) -> Hold:
        """Acquire for *block*, or for one that is entered by hand, or return an empty hold."""
        driver, owner = self._driver, current_owner()
        deadline = FOREVER if limit == FOREVER else driver.session.clock() + limit
        step = self._core.acquire(owner, deadline, lease)
        hold = acquire_for(driver, step, self._tried, block, self.name)
        if hold is not None:
            return hold
        refusal = driver.run(self._core.refusal(limit))
        return Hold(driver, NoHold(self._core.kind, self.name, owner.label, refusal.holder))

    def _tried(self, block: Block | None, hold: AnyHold) -> Hold:
        """Keep *hold* for *block*, or as long as the user keeps its object."""
        face = Hold(self._driver, hold)
        hold.hand(weakref.ref(face) if block is None else block.handle)
        return face

    __exit__ = exits()

    def _leave(self, block: Block, raised: BaseException | None) -> None:
        """Release what *block* acquired, in any thread that leaves it."""
        if block.over:
            return
        hold: AnyHold | None = block.got
        if hold is None and (hold := self._left_by_hand()) is None:
            self.release()
            return
        if hold.state != HELD:
            hold = self._in_place_of(hold, block)
        driver = self._driver
        own = raised is not None and driver.cancelled_by_loss(raised, hold)
        # The lock itself may have released it inside. In a forked child it is the parent's.
        once = hold.state != ENDED or driver.session.is_parents(hold.holder)
        try:
            end_block(driver, hold.release(), block, raised, own=own, once=once)
        except InterlockError as error:
            shorten(error)
            raise

    def _in_place_of(self, hold: AnyHold, block: Block) -> AnyHold:
        """Return what has taken the place of *hold*, which *block* acquired; or else *hold*.

        A wait for a condition puts another one there. So does who releases the lock and acquires it
        again inside, both by hand.
        """
        latest = hold.latest()
        if latest.kept() or self._taken is None or block.owner is None:
            return latest
        return self._taken if self._core.hold_of(block.owner) == self._taken else latest

    def _enter_by_hand(self, owner: Owner, hold: AnyHold) -> None:
        """Note that *owner* entered by hand, and may leave by ``__exit__`` or `release`."""
        block = Block().of(self)
        block.owner, block.got = owner, hold
        self._by_hand.forget(self._is_over)
        self._by_hand.enter(owner.identity, block)
        hold.hand(weakref.ref(block), alone=False)

    def _left_by_hand(self) -> AnyHold | None:
        """Return the hold that a call of ``__exit__`` by hand releases; None if none was entered.

        It is the caller's. If the caller has nothing to leave, it is what was entered last.
        """
        me = current_owner()
        block = self._by_hand.leave(me.identity, others=self._core.hold_of(me) is None)
        return None if block is None else block.got

    def _is_over(self, block: Block) -> bool:
        return not block.got.latest().kept()

    def locked(self) -> bool:
        """Return whether anyone holds it; one round trip."""
        return (self._driver.run(self._core.status())).remaining is not None

    def owned(self) -> bool:
        """Return whether this owner holds it, as `hold_count` does."""
        return self.hold_count() > 0

    def hold_count(self) -> int:
        """Return how often this owner holds it; one round trip, or none if the client knows of no hold."""
        return self._driver.run(self._core.depth_of(current_owner()))

    def remaining(self) -> float | None:
        """Return the seconds that are left of any owner's lease, or None; one round trip."""
        return (self._driver.run(self._core.status())).remaining

    def extend(self, lease: Duration) -> None:
        """Lengthen the lease to at least *lease* seconds from now.

        Raises:
            NotHeldError: this owner does not hold it.
            HoldLostError: it is lost.

        Cost:
            One round trip, and another one to name the present holder in NotHeldError.
        """
        seconds, driver = check_lease(lease), self._driver
        check_long_lease(lease, driver)
        step = self._core.extend(current_owner(), seconds)
        change_hold(driver, self._core, step)

    def force_release(self, *, holder: str | None = None, reason: str = "") -> bool:
        """Free it, or break the hold of *holder* alone; the holder hears of it at its next renewal.

        Args:
            holder: the holder id; None for any holder.
            reason: what the holder is told, as ``force-released: reason``; only with *holder*.

        Returns:
            Whether it was locked, or held by *holder* until now.

        Cost:
            One round trip if nobody holds it, else three at most.
        """
        if holder is None:
            if reason:
                raise ConfigError("a reason is for a holder: give holder= too")
            return self._driver.run(self._core.force_release())
        if not isinstance(self._core, LockBase):
            raise ConfigError(f"{self._core.kind} has no holder id: break the holds of its members")
        holder, text = check_text(holder, "a holder"), check_reason(reason)
        return self._driver.run(self._core.force_release_of(holder, text))

    @property
    def hold(self) -> Hold | None:
        """Return this owner's hold, or None; no round trip."""
        owner = current_owner()
        hold = self._core.hold_of(owner)
        if hold is None:
            return None
        face = Hold(self._driver, hold)
        if owner.in_job:  # its job may be over before the user releases it
            hold.hand(weakref.ref(face), alone=False)
        return face
