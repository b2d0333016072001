# Generated from interlock/asyncio/hold.py by tools/make_sync.py; change that file.
"""The hold, which an owner gets for a lock that it acquired."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import weakref
from functools import partial
from typing import TYPE_CHECKING, Self

from interlock._core.insight.events import tell_loss
from interlock._core.locks import ticket as core_ticket
from interlock._core.locks import transfer
from interlock._core.model.holds import HELD
from interlock._core.model.no_hold import NoHold
from interlock._drivers.block import entered, give_away
from interlock._drivers.blocking import acquire_for, end_block
from interlock._drivers.blocking_block import Exit
from interlock._drivers.flow import current_owner
from interlock._drivers.process.unclaimed import AnyClaim, Claim
from interlock._drivers.threads import LostEvent, finish_later, whole
from interlock._hints import hints
from interlock._misuse import check_long_lease
from interlock._naming import check_callback
from interlock._traceback import shorten
from interlock.errors import HoldLostError, InterlockError, NotHeldError
from interlock.options import MIN_LEASE, check_lease, lease_of
from interlock.sync.ticket import Ticket

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from types import TracebackType

    from interlock._core.model.effects import Step
    from interlock._core.model.holds import AnyHold
    from interlock._core.model.holds import Hold as OneHold
    from interlock._drivers.block import Block
    from interlock._drivers.protocol import BlockingDriver
    from interlock.options import Duration


@hints("client.lock(name), whose block gives it")
class Hold:
    """One owner's possession of one name; truthy while it lasts.

    The client answers from what it knows, without a round trip. A hold is *valid* until the lease
    that the server last acknowledged may have ended. Nobody else can hold the lock until then. The
    clock also counts the time in which a machine is suspended.

    Used by ``with``, it is released when the block is left, by any thread. A hold that was
    released inside is left alone. A hold of `Client.try_lock` is empty if the lock was not
    acquired: it is falsy, and leaving its block does nothing.

    Attributes:
        name: what is held.
    """

    __slots__ = ("__weakref__", "_claim", "_driver", "_hold", "_last", "_lost", "_released", "name")

    def __init__(
        self, driver: BlockingDriver, hold: AnyHold, claim: AnyClaim | None = None
    ) -> None:
        self._driver = driver
        self._hold = hold
        self._claim = claim
        self._released = False
        self._lost: LostEvent | None = None
        self._last: Step[None] | None = None
        self.name = hold.name

    def __repr__(self) -> str:
        if isinstance(self._hold, NoHold):
            return f"<Hold {self.name!r} not acquired, held by {self.holder or 'another owner'}>"
        state = "valid" if self.valid else "lost" if self.lost.is_set() else "over"
        if self._driver.session.is_parents(self.holder):
            state = "of the parent process"
        return f"<Hold {self.name!r} {state} holder={self.holder}>"

    def __bool__(self) -> bool:
        return self.valid

    @property
    def lost(self) -> LostEvent:
        """Return an event that is set when the hold ended without being released.

        It has `is_set` and `wait`; its `reason` and `detail` tell why.
        """
        # Made when it is asked for: most blocks never do.
        event = self._lost
        if event is None:
            event = self._lost = LostEvent(self._driver, self._hold)
        return event

    @property
    def holder(self) -> str | None:
        """Return ``"<client id>:<number>"``, as the server knows the holder.

        For an empty hold it is the holder at the time of the failed acquire, or None if that is not
        known.
        """
        return self._hold.holder

    @property
    def token(self) -> int | None:
        """Return the fencing token, or None for a lock without one."""
        return self._hold.token

    @property
    def token_source(self) -> str | None:
        """Return what keeps the token above all earlier ones, also after a failover.

        ``"epoch"``: a count of failovers. ``"clock"``: the server's, in a cluster. ``"counter"``:
        nothing else, and a failover may set that back. None: no token, or the hold was adopted.
        """
        return self._hold.token_source

    @property
    def replicas(self) -> int | None:
        """Return how many replicas had it when it was acquired, as `Options.replicas` asks; or None."""
        return self._hold.replicas

    @property
    def depth(self) -> int:
        """Return how often the lock was entered; 0 when the hold is over."""
        return self._hold.depth if self._hold.state is HELD else 0

    @property
    def valid(self) -> bool:
        """Return whether nobody else can hold the lock now."""
        return self._hold.valid(self._driver.session.clock())

    @property
    def remaining(self) -> float:
        """Return how many seconds the hold is valid without another renewal; 0 when it is over."""
        if not self.valid:
            return 0.0
        return max(0.0, self._hold.valid_until - self._driver.session.clock())

    def ensure(self) -> None:
        """Raise unless the hold is valid.

        Raises:
            HoldLostError: it was lost. Or the process stood still after a release of another
                client had given it the lock, and has not asked yet whether it was kept.
            NotHeldError: it was released, or not acquired.
        """
        if self.valid:
            return
        if isinstance(self._hold, NoHold):
            raise self._hold.not_held()
        if self.lost.is_set():
            reason = self._hold.reason or self._hold.expiry_reason()
            detail = self._hold.detail
            why = tell_loss(reason, detail)
            raise HoldLostError(
                f"{self.name!r} was lost ({why})", name=self.name, reason=reason, detail=detail
            )
        if self._hold.state is HELD:
            raise HoldLostError(
                f"{self.name!r} may be lost: the process stood still before the server could "
                "confirm that it keeps it",
                name=self.name,
                reason=self._hold.expiry_reason(),
            )
        is_parents = self._driver.session.is_parents(self.holder)
        told = "belongs to the process that forked this one" if is_parents else "was released"
        raise NotHeldError(f"{self.name!r} {told}", name=self.name, owner=self._hold.label)

    def on_lost(self, callback: Callable[[], object]) -> None:
        """Call *callback*, a plain function, once when the hold is lost; at once if it is already.

        It runs in a thread of the client's. An error in it is reported and stops nothing.
        ``sys.exit`` does not end the process.
        """
        check_callback(callback, plain=True)
        self._driver.on_lost(self._hold, callback)

    def release(self) -> None:
        """Go down by one depth, from whatever thread; free the lock at 0.

        Raises:
            NotHeldError: it was released before, or not acquired.
            HoldLostError: it was lost before.
            ServerUnavailableError: no reply; it may be tried again.
        """
        try:
            self._driver.perform(self._hold.release())
        except InterlockError as error:
            shorten(error)
            raise
        self._end()

    def _end(self) -> None:
        """Note that the user has released it or given it away."""
        self._released = True
        if self._claim is not None:
            self._claim.over = True

    def extend(self, lease: Duration) -> None:
        """Lengthen the lease to at least *lease* seconds from now; nothing makes it shorter.

        Raises:
            NotHeldError: it was released, or not acquired.
            HoldLostError: it was lost.
            ConfigError: *lease* cannot be.

        Cost:
            One round trip.
        """
        check_long_lease(lease, self._driver)
        step = self._hold.extend(check_lease(lease))
        try:
            self._driver.perform(step)
        except InterlockError as error:
            shorten(error)
            raise

    def hand_over(self, *, lease: Duration | None = None) -> Ticket:
        """Give the hold to another process, without freeing the lock; one round trip.

        That process passes the ticket's text to `Client.adopt`, once; whoever reads it can do so.
        The hold is over here then, and leaving its ``with`` block is not an error. Nobody renews it
        until it is adopted.

        Args:
            lease: seconds after which the lock is free unless it is adopted before; None for
                `Options.lease`.

        Raises:
            ConfigError: it is not a hold of a lock, fair lock, fenced lock or spin lock.
            NotHeldError, HoldLostError: it was released, or lost.
            ReentryError: it is entered more than once.
            ServerUnavailableError: no usable answer. The hold goes on, for the ticket's lease or
                until its next renewal, unless it is found to be lost.
        """
        handles = transfer.transferable(self._hold)[0].handles
        ticket = self._driver.run(transfer.hand_over(self._hold, lease_of(lease, self._driver)))
        self._give_away(handles)
        return Ticket(self._driver, ticket, partial(adopt, self._driver))

    def _give_away(self, handles: Sequence[Callable[[], object]]) -> None:
        """Note that nothing here is to release it."""
        give_away(handles)
        self._end()

    def _end_within(self, seconds: float) -> None:
        """End it *seconds* after now, although it is renewed."""
        transfer.transferable(self._hold)[0].end_by(self._driver.session.clock() + seconds)

    def _leave_locked(self, seconds: float) -> None:
        """Be over, and leave the lock locked for *seconds*."""
        handles = transfer.transferable(self._hold)[0].handles
        self._driver.run(transfer.leave_locked(self._hold, max(seconds, MIN_LEASE)))
        self._give_away(handles)

    def __enter__(self) -> Self:
        block = entered(self)
        if block is None:
            self._hold.hand(weakref.ref(self), alone=False)
        else:
            self._keep_for(block)
        return self

    def _keep_for(self, block: Block) -> None:
        """Keep it until *block* is left."""
        block.begin(self._driver, self.name, self._left)
        if self._claim is not None:
            self._claim.over = True
        self._hold.hand(block.handle)

    def _left(self) -> Step[None] | None:
        """Return the step that releases it at the end of a block, if that is left to do."""
        if self._released:
            return None
        # Always the same step: a second one would go down by another depth.
        step = self._last = self._last or self._hold.latest().release()
        return step.unfinished()

    def _struck(self) -> None:
        """Release it in the background, because a signal struck where its block begins."""
        if self._claim is not None:
            self._claim.over = True
        step = self._left()
        if step is not None:
            finish_later(self._driver, self.name, step)

    if TYPE_CHECKING:

        def __exit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...
    else:
        __enter__ = whole(__enter__, _struck)
        __exit__ = Exit(_struck)

    def _leave(self, block: Block | None, raised: BaseException | None) -> None:
        """Release it at the end of *block*, in any thread that leaves it."""
        if self._released or (block is not None and block.over):
            return
        if self._claim is not None:
            self._claim.over = True
        own = self._driver.cancelled_by_loss(raised, self._hold)
        # A wait for a condition puts another one in its place.
        release = self._hold.latest().release()
        # It may have been released inside, or not acquired.
        try:
            end_block(self._driver, release, block, raised, own=own, once=False)
        except InterlockError as error:
            shorten(error)
            raise


_new = Hold.__new__
_WRITE_ADOPT = "with client.adopt(ticket) as hold:"


def of_block(driver: BlockingDriver, hold: AnyHold, block: Block | None) -> Hold:
    """Return *hold* for the *block* that gets it; None if a call by hand does.

    The class is not called. That would cost each block 1,000 instructions more (`hints`).
    """
    made = _new(Hold)
    made._driver, made._hold, made._claim, made.name = driver, hold, block, hold.name
    made._released, made._lost, made._last = False, None, None
    return made


def adopt(driver: BlockingDriver, ticket: Ticket | str, lease: Duration | None = None) -> Hold:
    """Take over the hold that *ticket* stands for, as `Client.adopt` tells."""
    given = transfer.Ticket.read(str(ticket) if isinstance(ticket, Ticket) else ticket)
    core = core_ticket.lock_of(driver.session, given)
    caller = current_owner()
    step = transfer.adopt(core, caller, given.holder, given.token, lease_of(lease, driver))

    def claimed(_: Block | None, hold: OneHold) -> Hold:
        return Hold(driver, hold, Claim(driver, hold, caller, _WRITE_ADOPT))

    hold = acquire_for(driver, step, claimed, name=core.name)
    assert hold is not None, "it raises instead"
    return hold
