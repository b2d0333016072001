"""What every lock-like has: Python's own vocabulary over an operation of the core."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Never

from interlock._core.locks.lock_base import LockBase
from interlock._core.model.no_hold import NoHold
from interlock._drivers.awaited import acquire_for, change_hold, end_block, release_unclaimed
from interlock._drivers.awaited_block import Exit
from interlock._drivers.block import Block, ByHand, entered
from interlock._drivers.tasks import current_owner
from interlock._hints import hints, told, unexpected
from interlock._misuse import always_true, check_long_lease
from interlock._traceback import shorten
from interlock.asyncio.hold import Hold, awaited, of_block
from interlock.asyncio.trying import Trying
from interlock.errors import ConfigError, InterlockError
from interlock.options import (
    FOREVER,
    check_lease,
    check_reason,
    check_text,
    check_timeout,
    lease_of,
)

if TYPE_CHECKING:
    from types import TracebackType

    from interlock._core.locks.composite import CompositeLock
    from interlock._core.model.holds import AnyHold, Owner
    from interlock._drivers.protocol import AwaitedDriver
    from interlock.options import Duration


@always_true("write `async with lock.trying() as hold:`, and inside it `if hold:`")
@hints("client.lock(name)")
class Lock:
    """A reentrant lock, shared with Java's RLock; made by `Client.lock`.

    Its owner is the task that acquired it (a child task is another one), unless ``owner=`` was
    given.

    Attributes:
        name: what it is called.
        cancel_on_lost: cancel the task in an ``async with`` block when the hold is lost.
    """

    __slots__ = (
        "__weakref__",
        "_by_hand",
        "_core",
        "_driver",
        "_fixed_owner",
        "_lease",
        "_parts",
        "_tested",
        "_timeout",
        # asyncio only
        "cancel_on_lost",
        # end
        "name",
    )

    def __init__(
        self,
        driver: AwaitedDriver,
        core: LockBase | CompositeLock,
        *,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        owner: Owner | None = None,
    ) -> None:
        self._driver = driver
        self._core = core
        self._timeout = check_timeout(blocking=True, timeout=timeout)
        self._lease = lease_of(lease, driver)
        self._fixed_owner = owner
        # Python 3.11 is slow to look up an attribute of a class with `__getattr__` (`hints`). So
        # each call looks up one: 8 looks fewer are 5 % of the instructions of a pair.
        self._parts = driver, core, owner, self._lease
        # asyncio only
        self.cancel_on_lost = False
        # end
        self.name = core.name
        self._by_hand: ByHand[Block] = ByHand()

    def __repr__(self) -> str:
        hold = None
        with suppress(RuntimeError):  # there may be no owner here
            hold = self.hold
        state = "not held here" if hold is None else repr(hold)
        return f"<{type(self).__name__} {self.name!r} {state}>"

    # asyncio only
    @awaited
    # end
    @told
    async def acquire(
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
            timeout: seconds to wait; None or -1 for ever, 0 for one try.
            lease: seconds after which it ends by itself; None for the one given at making, or else
                a hold that is renewed until it is released.

        Returns:
            Whether it is held now.

        Raises:
            ValueError: *timeout* or *lease* cannot be.
            OverflowError: *timeout* is above `threading.TIMEOUT_MAX`.
            ReentryError: it is not reentrant and this owner holds it.
            HoldLostError: this owner has lost it and has not released it. A hold whose own
                *lease* ran out does not count, unless a block is still inside.
            ServerUnavailableError: no usable answer in time.
            WrongTypeError: the name is in use by something else.
            ReplicationError: too few replicas acknowledged it, and `Options.replicas` requires
                them; it is given back.
            ClosedError: the client is closed.

        Cost:
            One round trip when it is free.
        """
        if _foreign:
            raise unexpected(self.acquire, _foreign)
        # asyncio only
        del _foreign  # many tasks may wait here: one object less for each
        # end
        limit = (
            FOREVER if timeout is None and blocking is True else check_timeout(blocking, timeout)
        )
        driver, core, owner, given = self._parts
        if owner is None:
            owner = current_owner()
        if driver.unclaimed.entries:
            await self._release_unclaimed(owner, limit)
        deadline = FOREVER if limit == FOREVER else driver.session.clock() + limit
        seconds = given if lease is None else lease_of(lease, driver)
        try:
            hold = await driver.perform(core.acquire(owner, deadline, seconds))
        except BaseException as error:
            shorten(error)
            raise
        if hold is None:
            return False
        if not hold.owned:
            hold.own()  # a hold that was only a block's is this owner's from now on
        return True

    @told
    async def release(self, **_foreign: Never) -> None:
        """Go down by one depth; free the lock at 0.

        Raises:
            NotHeldError: another owner holds it, or nobody; nothing was changed.
            HoldLostError: it was lost before.
            ServerUnavailableError: no reply; it is not renewed any more, and releasing it may be
                tried again.
            ClosedError: the client is closed.

        Cost:
            One round trip, and another one to name the present holder in NotHeldError.
        """
        if _foreign:
            raise unexpected(self.release, _foreign)
        driver, core, owner, _ = self._parts
        try:
            await change_hold(driver, core, core.release(owner or current_owner()))
        except InterlockError as error:
            shorten(error)
            raise

    async def __aenter__(self) -> Hold:
        limit, (driver, core, owner, lease) = self._timeout, self._parts
        block = entered(self)
        if owner is None:
            owner = current_owner()
        if block is not None:
            block.owner = owner
        if driver.unclaimed.entries:
            await self._release_unclaimed(owner, limit)
        deadline = FOREVER if limit == FOREVER else driver.session.clock() + limit
        step = core.acquire(owner, deadline, lease)
        try:
            hold = await acquire_for(driver, step, self._entered, block, self.name)
            if hold is None:
                raise await driver.run(self._core.refusal(limit))  # noqa: TRY301 - see `shorten`
        except BaseException as error:
            shorten(error)
            raise
        return hold

    def _entered(self, block: Block | None, hold: AnyHold) -> Hold:
        """Keep *hold* for *block*, or until its owner leaves by hand."""
        driver, _, owner, _ = self._parts
        if block is None:
            self._enter_by_hand(owner or current_owner(), hold)
        else:
            hold.hand(block.handle)
        # asyncio only
        if self.cancel_on_lost:
            driver.cancel_on_lost(hold)
        # end
        return of_block(driver, hold)

    def trying(self, timeout: Duration = 0, *, lease: Duration | None = None) -> Trying[Hold]:
        """Return a block that is entered whether or not the lock is acquired.

        For example ``async with lock.trying(timeout=1) as hold: if hold: ...``. Leaving the block
        releases the lock. The hold is empty and falsy if the lock was not acquired, and its
        ``holder`` tells who holds the lock, if that is known. Nothing is sent before the block.

        Args:
            timeout: seconds to wait; 0 for one try.
            lease: seconds after which the hold ends by itself; None for the one given at making.

        Raises:
            ValueError: *timeout* or *lease* cannot be.
            OverflowError: *timeout* is above `threading.TIMEOUT_MAX`.
            InterlockError: the block raises as `acquire`.

        Cost:
            One round trip when it is free; one more to ask for the holder when it is not acquired.
        """
        limit = check_timeout(blocking=True, timeout=timeout)
        seconds = self._lease if lease is None else lease_of(lease, self._driver)
        return Trying(partial(self._try, limit, seconds))

    async def _try(self, limit: float, lease: float | None, block: Block | None) -> Hold:
        """Acquire for *block*, or for one that is entered by hand, or return an empty hold."""
        driver, owner = self._driver, self._fixed_owner or current_owner()
        if driver.unclaimed.entries:
            await self._release_unclaimed(owner, limit)
        deadline = FOREVER if limit == FOREVER else driver.session.clock() + limit
        step = self._core.acquire(owner, deadline, lease)
        hold = await acquire_for(driver, step, self._tried, block, self.name)
        if hold is not None:
            return hold
        refusal = await driver.run(self._core.refusal(limit))
        return Hold(driver, NoHold(self._core.kind, self.name, owner.label, refusal.holder))

    def _tried(self, block: Block | None, hold: AnyHold) -> Hold:
        """Keep *hold* for *block*, or as long as the user keeps its object."""
        face = Hold(self._driver, hold)
        hold.hand(weakref.ref(face) if block is None else block.handle)
        # asyncio only
        if self.cancel_on_lost:
            self._driver.cancel_on_lost(hold)
        # end
        return face

    async def _release_unclaimed(self, owner: Owner, limit: float) -> None:
        """Release what *owner* acquired of this lock and did not keep."""
        if isinstance(self._core, LockBase):
            await release_unclaimed(self._driver, self._core, owner, limit)

    if TYPE_CHECKING:

        async def __aexit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...
    else:
        __aexit__ = Exit()

    async def _leave(self, block: Block, raised: BaseException | None) -> None:
        """Release what *block* acquired, in any task that leaves it."""
        if block.given_away:
            return
        driver, core, _, _ = self._parts
        owner = block.owner or self._left_by_hand()
        own = raised is not None and driver.cancelled_by_loss(raised, core.hold_of(owner))
        try:
            await end_block(driver, core.release(owner), block, raised, own=own)
        except InterlockError as error:
            shorten(error)
            raise

    def _enter_by_hand(self, owner: Owner, hold: AnyHold) -> None:
        """Note that *owner* entered by hand, and may leave by ``__aexit__`` or `release`."""
        block = Block().of(self)
        block.owner = owner
        self._by_hand.forget(self._is_over)
        self._by_hand.enter(owner.identity, block)
        hold.hand(weakref.ref(block), alone=False)

    def _left_by_hand(self) -> Owner:
        """Return the owner that a call of ``__aexit__`` by hand releases for.

        It is the caller. If the caller has nothing to leave, it is the owner that entered last.
        """
        me = self._fixed_owner or current_owner()
        block = self._by_hand.leave(me.identity, others=self._core.hold_of(me) is None)
        return me if block is None or block.owner is None else block.owner

    def _is_over(self, block: Block) -> bool:
        return block.owner is None or self._core.hold_of(block.owner) is None

    # asyncio only
    @awaited
    # end
    async def locked(self) -> bool:
        """Return whether anyone holds it; one round trip."""
        return (await self._driver.run(self._core.status())).remaining is not None

    # asyncio only
    @awaited
    # end
    async def owned(self) -> bool:
        """Return whether this owner holds it.

        The answer is False without a round trip if the client knows of no hold. Otherwise it is the
        server's.
        """
        return await self.hold_count() > 0

    async def hold_count(self) -> int:
        """Return how often this owner holds it.

        The answer is 0 without a round trip if the client knows of no hold. Otherwise it is the
        server's.
        """
        return await self._driver.run(self._core.depth_of(self._fixed_owner or current_owner()))

    async def remaining(self) -> float | None:
        """Return the seconds until the lease ends unless it is renewed; None if nobody holds it.

        The holder may be any owner. One round trip.
        """
        return (await self._driver.run(self._core.status())).remaining

    async def extend(self, lease: Duration) -> None:
        """Lengthen the lease to at least *lease* seconds from now.

        Raises:
            NotHeldError: this owner does not hold it.
            HoldLostError: it is lost.
            ServerUnavailableError: no usable answer.

        Cost:
            One round trip, and another one to name the present holder in NotHeldError.
        """
        seconds, driver = check_lease(lease), self._driver
        check_long_lease(lease, driver)
        step = self._core.extend(self._fixed_owner or current_owner(), seconds)
        await change_hold(driver, self._core, step)

    async def force_release(self, *, holder: str | None = None, reason: str = "") -> bool:
        """Free it, or break the hold of *holder* alone; the holder hears of it at its next renewal.

        Args:
            holder: the holder id; None for any holder.
            reason: what the holder is told, as ``force-released: reason``; only with *holder*.

        Returns:
            Whether it was locked, or held by *holder* until now.

        Raises:
            ConfigError: a *reason* without a *holder*, or a *holder* of several locks held as one.
            ServerUnavailableError: no usable answer.

        Cost:
            One round trip if nobody holds it, else three at most.
        """
        if holder is None:
            if reason:
                raise ConfigError("a reason is for a holder: give holder= too")
            return await self._driver.run(self._core.force_release())
        if not isinstance(self._core, LockBase):
            raise ConfigError(f"{self._core.kind} has no holder id: break the holds of its members")
        holder, text = check_text(holder, "a holder"), check_reason(reason)
        return await self._driver.run(self._core.force_release_of(holder, text))

    def _caller(self) -> Owner:
        """Return the owner that the caller is."""
        return self._fixed_owner or current_owner()

    @property
    def hold(self) -> Hold | None:
        """Return this owner's hold, or None; no round trip."""
        hold = self._core.hold_of(self._fixed_owner or current_owner())
        return None if hold is None else Hold(self._driver, hold)
