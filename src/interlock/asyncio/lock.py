"""The lock, and a try of one.

The driver gives a step up if anything is raised while it performs that. A face which goes on after
that, to note what was acquired, gives it up once more if that is interrupted.
"""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from contextlib import suppress
from functools import partial
from sys import _getframe  # pyright: ignore[reportPrivateUsage]
from threading import get_ident
from typing import TYPE_CHECKING, Any, Never, Self, cast

from interlock._core.locks import release as operations
from interlock._core.locks import ticket as tickets
from interlock._core.locks.errors import name_holder, not_held
from interlock._core.locks.transfer import Adopt, HandOver, LeaveLocked
from interlock._core.model.hold import ENDED, LOST, Claim, Job
from interlock._core.model.no_hold import NoHold
from interlock._drivers.block import ByHand, Exit, bury, entered, is_over, struck
from interlock._drivers.known_hold import KnownHold, of_block
from interlock._drivers.process.line import note_line
from interlock._drivers.process.whole import give_up, whole
from interlock._drivers.tasks import LostEvent, current_owner, lasting_owner
from interlock._drivers.unawaited import awaited
from interlock._hints import hints, told, unexpected
from interlock._misuse import check_long_lease, publish
from interlock._naming import check_callback
from interlock._traceback import outermost, shorten
from interlock.asyncio import trying
from interlock.asyncio.ending import leave
from interlock.asyncio.ticket import Ticket
from interlock.errors import ConfigError, InterlockError, NotHeldError
from interlock.options import (
    FOREVER,
    MIN_LEASE,
    check_lease,
    check_reason,
    check_text,
    check_timeout,
    lease_of,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from interlock._core.locks import base
    from interlock._core.model import hold as model
    from interlock._drivers.aio import AsyncDriver
    from interlock._drivers.block import Block
    from interlock.asyncio.ending import Exits
    from interlock.options import Duration


async def _leave_block(block: Block, *raised: Any) -> bool:
    """Leave *block*; the lock is among the arguments if ``__aexit__`` was looked up in the class."""
    lock, claim = block.lock, block.claim
    if lock is None:
        lock, *raised = raised  # type: ignore[assignment]
    error: BaseException | None = raised[1]
    assert lock is not None
    hold = None if claim is None else claim.hold
    try:
        if hold is not None:
            await lock._leave_hold(hold, claim, error)
        elif not block.entered:
            await lock._leave_by_hand(error)
    except InterlockError as trouble:
        shorten(trouble)
        raise
    block.claim = None  # nobody need hear of its end
    return False


ending = whole(_leave_block, struck)  # called from C: no signal strikes between the two


class _Entering:
    """What is entered: a lock, or a try of one."""

    __slots__ = (
        "__weakref__",
        "_by_hand",
        "_core",
        "_driver",
        "_put",
        # asyncio only
        "cancel_on_lost",
        # end
    )

    _parts: tuple[AsyncDriver, Any, float, float | None]
    """The driver, what is acquired, how long that is waited for, and the lease."""

    def __init__(self, driver: AsyncDriver, core: base.Lock) -> None:
        self._driver, self._core = driver, core
        self._by_hand: ByHand[Any] = ByHand()
        self._put = driver.session.wake  # hears of the ends of its blocks
        # asyncio only
        self.cancel_on_lost = False
        # end

    async def __aenter__(self) -> Any:
        claim, owner = entered(self), current_owner()
        driver, core, limit, lease = self._parts
        deadline = FOREVER if limit == FOREVER else driver.session.clock() + limit
        entry = Job(self) if claim is None else claim
        step = core.acquiring().of(core, owner, deadline, lease, entry)
        try:
            hold = await driver.perform(step)
            if claim is None:  # it may be left by another owner, as long as this object is there
                self._by_hand.forget(is_over)
                self._by_hand.enter(owner.identity, hold)
            else:
                claim.hold = hold
            if hold is None:
                return await self._refused(driver, core, limit)
            if hold.line is None:
                if claim is None or claim.__callback__ is bury:
                    note_line(hold, 1)  # an exit stack may be in between
                else:
                    frame = _getframe(1)
                    hold.line = frame.f_code, frame.f_lasti
            # asyncio only
            if self.cancel_on_lost:
                driver.cancel_on_lost(hold)
            # end
            return self._block_of(hold, claim)
        except BaseException as error:
            give_up(step)
            shorten(error)
            raise

    async def _refused(self, driver: AsyncDriver, core: Any, limit: float) -> Any:
        """Return what the block gets if nothing was acquired within *limit* seconds, or raise."""
        raise await driver.run(operations.refusal(core, limit))

    def _block_of(self, hold: Any, claim: Claim | None) -> Any:
        """Return the face of *hold*, for the block of *claim*."""
        return of_block(Hold, self._driver, hold, self, claim)

    async def _leave_hold(
        self, hold: model.Hold, claim: Claim | None, error: BaseException | None
    ) -> None:
        """End the entry of *claim*, or the last one, at the end of a block that *error* ends."""
        driver = self._driver
        hold = hold.latest()  # after a wait for a condition
        own = error is not None and driver.cancelled_by_loss(error, hold)
        if claim is not None and claim not in hold.entries and hold.over is not LOST:
            if (found := self._instead_of(hold)) is None:
                return  # it was released inside
            hold, claim = found, None
        await leave(driver, hold.release(claim), error, own=own)

    def _instead_of(self, hold: model.Hold) -> model.Hold | None:
        """Return what has taken the place of *hold* inside of its block, by hand, if anything has."""
        del hold
        return None

    async def _leave_by_hand(self, error: BaseException | None) -> None:
        """Leave what was entered by hand: the caller's, or else what was entered last."""
        me = current_owner()
        others = operations.hold_of(self._core, me) is None
        hold = self._by_hand.leave(me.identity, others=others)
        if hold is not None:
            await self._leave_hold(hold, None, error)
        else:
            await self._leave_unknown()

    async def _leave_unknown(self) -> None:
        """Leave a block that was not entered."""
        raise RuntimeError("this block was not entered")


@hints("client.lock(name), whose block gives it")
class Hold(KnownHold):
    """One owner's possession of one name; truthy while it lasts.

    The client answers from what it knows, without a round trip. A hold is *valid* until the lease
    that the server last acknowledged may have ended. Nobody else can hold the lock until then. The
    clock also counts the time in which a machine is suspended.

    Used by ``async with``, it is released when the block is left, by any task. A hold that was
    released inside is left alone. A hold of `Client.try_lock` is empty if the lock was not
    acquired: it is falsy, and leaving its block does nothing.

    Attributes:
        name: what is held.
    """

    __slots__ = ()

    if TYPE_CHECKING:  # help() would show it
        _hold: Any

    @property
    def lost(self) -> LostEvent:
        """Return an event that is set when the hold ended without being released.

        It has `is_set` and `wait`; its `reason` and `detail` tell why.
        """
        # Made when it is asked for: most blocks never do.
        event: LostEvent | None = self._lost
        if event is None:
            event = self._lost = LostEvent(self._driver, self._hold)
        return event

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call *callback*, a plain function, once when the hold is lost; at once if it is already.

        It runs in the event loop. An error in it is reported and stops nothing.
        But ``sys.exit`` ends the loop, as in every callback of asyncio.
        """
        check_callback(callback, plain=True)
        self._driver.on_lost(self._hold, callback)

    # asyncio only
    def cancel_on_lost(self) -> None:
        """Cancel the running task when the hold is lost.

        Leaving ``async with`` then raises HoldLostError in place of the CancelledError.
        """
        self._driver.cancel_on_lost(self._hold)

    # end
    async def release(self) -> None:
        """Go down by one depth, from whatever task; free the lock at 0.

        Raises:
            NotHeldError: it was released before, or not acquired.
            HoldLostError: it was lost before.
            ServerUnavailableError: no reply. It is not renewed any more, and the client goes on to
                release it.
        """
        with outermost:
            await self._driver.perform(self._releasing())
        self._released = True

    async def extend(self, lease: Duration) -> None:
        """Lengthen the lease to at least *lease* seconds from now; one round trip.

        Nothing makes it shorter. Errors are as of `release`.
        """
        check_long_lease(lease, self._driver)
        seconds = check_lease(lease)
        with outermost:
            if isinstance(self._hold, NoHold):
                raise self._hold.not_held()
            await self._driver.perform(self._hold.extend(seconds))

    async def hand_over(self, *, lease: Duration | None = None) -> Ticket:
        """Give the hold to another process, without freeing the lock; one round trip.

        That process passes the ticket's text to `Client.adopt`, once; whoever reads it can do so.
        The hold is over here then, and leaving its ``with`` block is not an error. Nobody renews it
        until it is adopted.

        Args:
            lease: seconds after which the lock is free unless it is adopted before; None for
                `Options.lease`.

        Raises:
            ConfigError: it is not a hold of a lock, fair lock, fenced lock or spin lock.
            ReentryError: it is entered more than once.
            ServerUnavailableError: no usable answer. The hold is over here, unless the message says
                that nothing was done.
        """
        driver, hold = self._driver, self._hold
        if isinstance(hold, NoHold):
            raise hold.not_held()
        seconds = lease_of(lease, driver)
        step = HandOver(hold, driver.session.options.lease if seconds is None else seconds)
        try:
            holder = await driver.perform(step)
            told = tickets.Ticket(hold.lock.kind, holder, hold.token, hold.name)
            return Ticket(driver, told, partial(adopt, driver))
        except BaseException as error:
            give_up(step)
            shorten(error)
            raise

    async def _leave_locked(self, seconds: float) -> None:
        """Release it, but leave the lock locked for so many *seconds*."""
        with outermost:
            await self._driver.perform(LeaveLocked(self._hold, max(seconds, MIN_LEASE)))

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._released or isinstance(self._hold, NoHold):
            return
        hold = self._hold = self._hold.latest()
        if hold.over is ENDED:
            return
        own = error is not None and self._driver.cancelled_by_loss(error, hold)
        with outermost:
            await leave(self._driver, self._releasing(), error, own=own)
        self._released = True


@hints("client.lock(name)")
class Lock(_Entering):
    """A reentrant lock, shared with Java's RLock; made by `Client.lock`.

    Its owner is the task that acquired it. A child task is another one.

    Attributes:
        name: what it is called.
        cancel_on_lost: cancel the task in an ``async with`` block when the hold is lost.
    """

    __slots__ = ("_lease", "_parts", "_taken", "_timeout", "name")

    def __init__(
        self,
        driver: AsyncDriver,
        core: base.Lock,
        *,
        timeout: Duration | None = None,
        lease: Duration | None = None,
    ) -> None:
        super().__init__(driver, core)
        self._timeout = check_timeout(blocking=True, timeout=timeout)
        self._lease = lease_of(lease, driver)
        # Python 3.11 is slow to look up an attribute of a class with `__getattr__` (`hints`).
        self._parts = driver, core, self._timeout, self._lease
        self._taken: model.Hold | None = None  # by hand, last
        self.name = core.name

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
            timeout: seconds to wait; None for the one given at making, or else for ever.
            lease: seconds after which it ends by itself; None for the one given at making, or else
                a hold that is renewed until it is released.

        Returns:
            Whether it is held now.

        Raises:
            ReentryError: it is not reentrant and this owner holds it. Or only this thread could end
                the wait, as in a task whose event loop runs in the thread that holds it.
            HoldLostError: this owner has lost it and has not released it. A hold whose own
                *lease* ran out does not count, unless a block is still inside.
            ReplicationError: too few replicas acknowledged it, and `Options.replicas` requires
                them; it is given back.

        Cost:
            One round trip when it is free.
        """
        if _foreign:
            raise unexpected(self.acquire, _foreign)
        # asyncio only
        del _foreign  # many tasks may wait here: one object less for each
        # end
        driver, core, limit, given = self._parts
        if timeout is not None or blocking is not True:
            limit = check_timeout(blocking, timeout)
        owner = lasting_owner()
        deadline = FOREVER if limit == FOREVER else driver.session.clock() + limit
        seconds = given if lease is None else lease_of(lease, driver)
        entry = Job(self) if owner.in_job else None
        step = core.acquiring().of(core, owner, deadline, seconds, entry)
        try:
            hold = await driver.perform(step)
            if hold is not None:
                self._taken = hold
                if hold.line is None:
                    frame = _getframe(1)
                    hold.line = frame.f_code, frame.f_lasti
            return hold is not None  # noqa: TRY300 - a signal may strike here
        except BaseException as error:
            give_up(step)
            shorten(error)
            raise

    @told
    async def release(self, **_foreign: Never) -> None:
        """Go down by one depth; free the lock at 0.

        Raises:
            NotHeldError: another owner holds it, or nobody; nothing was changed.
            HoldLostError: it was lost before.
            ServerUnavailableError: no reply. It is not renewed any more, and the client goes on to
                release it.

        Cost:
            One round trip, and another one to name the present holder in NotHeldError.
        """
        if _foreign:
            raise unexpected(self.release, _foreign)
        driver, taken = self._driver, self._taken
        # To look who calls takes long, and a thread with one owner may release what that has.
        owner = None if taken is None or taken.over or not taken.entries else taken.owner()
        try:
            if owner is None or not (owner.alone_in == get_ident() or owner is current_owner()):
                taken = await self._caller_has()
            assert taken is not None
            await driver.perform(taken.release())
        except InterlockError as error:
            shorten(error)
            raise

    async def _caller_has(self) -> model.Hold:
        """Return what the caller may release: what it has, or what is left to this very object.

        That is of a job of a pool that is over.

        Raises:
            NotHeldError: there is nothing.
        """
        me, taken = current_owner(), self._taken
        hold = operations.hold_of(self._core, me)
        if hold is not None:
            return hold
        if taken is not None and not taken.kept():  # several jobs may have taken a read lock
            live = list(self._driver.session.live)
            taken = next((each for each in live if each.taken_by(self)), None)
        if taken is not None and taken.by_hand():
            owner = taken.owner()
            if owner is None or owner.lets_caller_release():
                return taken
        raise await self._told(not_held(self._core.kind, self.name, me.label))

    async def _told(self, error: NotHeldError) -> NotHeldError:
        """Return *error*, which names the present holder if the server answers."""
        _, holder = await self._driver.run(self._core.present_holder())
        name_holder(error, holder, self._driver.session)
        return error

    if TYPE_CHECKING:

        async def __aenter__(self) -> Hold: ...

    __aexit__ = cast("Exits", Exit(ending))

    def _instead_of(self, hold: model.Hold) -> model.Hold | None:
        taken, owner = self._taken, hold.owner()
        if taken is None or taken is hold or owner is None:
            return None
        return taken if operations.hold_of(self._core, owner) is taken else None

    async def _leave_unknown(self) -> None:
        await self.release()

    def trying(
        self, timeout: Duration = 0, *, lease: Duration | None = None
    ) -> trying.Trying[Hold]:
        """Return a block that is entered whether or not the lock is acquired.

        For example ``async with lock.trying(timeout=1) as hold: if hold: ...``. Leaving the block
        releases the lock. The hold is empty and falsy if the lock was not acquired, and its
        ``holder`` tells who holds the lock, if that is known. Nothing is sent before the block,
        which raises and costs as `acquire` does, and asks once more for a holder.
        """
        limit = check_timeout(blocking=True, timeout=timeout)
        seconds = self._lease if lease is None else lease_of(lease, self._driver)
        made = Trying(self._driver, self._core, limit, seconds)
        # asyncio only
        made.cancel_on_lost = self.cancel_on_lost
        # end
        return made

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
        """Return whether this owner holds it, as `hold_count` does."""
        return await self.hold_count() > 0

    async def hold_count(self) -> int:
        """Return how often this owner holds it; one round trip, or none if it has no hold."""
        return await self._driver.run(operations.depth_of(self._core, current_owner()))

    async def remaining(self) -> float | None:
        """Return the seconds that are left of any owner's lease, or None; one round trip."""
        return (await self._driver.run(self._core.status())).remaining

    async def extend(self, lease: Duration) -> None:
        """Lengthen the lease to at least *lease* seconds from now; errors and cost as `release`."""
        seconds = check_lease(lease)
        check_long_lease(lease, self._driver)
        try:
            step = operations.held_by(self._core, current_owner()).extend(seconds)
            await self._driver.perform(step)
        except NotHeldError as error:
            raise shorten(await self._told(error)) from None
        except InterlockError as error:
            shorten(error)
            raise

    async def force_release(self, holder: str | None = None, reason: str = "") -> bool:
        """Free it, or break the hold of *holder* alone; the holder hears of it at its next renewal.

        Args:
            holder: the holder id; None for any holder.
            reason: what the holder is told, as ``force-released: reason``; only with *holder*.

        Returns:
            Whether it was locked, or held by *holder* until now; three round trips at most.
        """
        if holder is None and reason:
            raise ConfigError("a reason is for a holder: give holder= too")
        if holder is not None:
            holder, reason = check_text(holder, "a holder"), check_reason(reason)
        freed: bool = await self._driver.run(self._core.breaking(holder, reason))
        return freed

    @property
    def hold(self) -> Hold | None:
        """Return this owner's hold, or None; no round trip."""
        hold = operations.hold_of(self._core, current_owner())
        return None if hold is None else of_block(Hold, self._driver, hold, self)


class Trying(_Entering, trying.Trying[Hold]):
    """An acquire for ``async with``, which gives a falsy object if it fails.

    Args:
        driver: the client's.
        core: the algorithm.
        limit: seconds to wait.
        lease: seconds after which a hold ends by itself; None if it is renewed.
    """

    __slots__ = ("_parts",)

    def __init__(
        self, driver: AsyncDriver, core: base.Lock, limit: float, lease: float | None
    ) -> None:
        super().__init__(driver, core)
        self._parts = driver, core, limit, lease

    async def _refused(self, driver: AsyncDriver, core: Any, limit: float) -> Any:
        del limit
        _, holder = await driver.run(core.present_holder())
        return self._block_of(NoHold(core, current_owner(), holder), None)

    if TYPE_CHECKING:

        async def __aenter__(self) -> Hold: ...

    __aexit__ = cast("Exits", Exit(ending))

    async def _leave_by_hand(self, error: BaseException | None) -> None:
        hold = self._by_hand.leave(current_owner().identity)
        if hold is not None:
            await self._leave_hold(hold, None, error)


async def adopt(driver: AsyncDriver, ticket: Ticket | str, lease: Duration | None = None) -> Hold:
    """Take over the hold that *ticket* stands for, as `Client.adopt` tells."""
    given = tickets.Ticket.read(str(ticket) if isinstance(ticket, Ticket) else ticket)
    core, owner = tickets.core_of(driver.session, given), current_owner()
    lock, seconds = Lock(driver, core), lease_of(lease, driver)
    entry = Job(lock) if owner.in_job else None
    step = Adopt(core, owner, given.holder, given.token, seconds, entry)
    try:
        hold = await driver.perform(step)
        assert hold is not None, "it raises instead"
        note_line(hold, 2)
        return of_block(Hold, driver, hold, lock)
    except BaseException as error:
        give_up(step)
        shorten(error)
        raise


publish("interlock.asyncio", _Entering, Trying)  # help() shows no name of what is inside
