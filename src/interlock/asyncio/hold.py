"""The hold, which an owner gets for a lock that it acquired."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import inspect
import sys
import weakref
from collections.abc import Coroutine
from functools import wraps
from typing import TYPE_CHECKING, Any, ParamSpec, Self, TypeVar, cast

from interlock._core.insight.events import tell_loss
from interlock._core.locks import transfer
from interlock._core.model.holds import HELD
from interlock._core.model.no_hold import NoHold
from interlock._drivers.awaited import end_block
from interlock._drivers.awaited_block import Exit
from interlock._drivers.block import entered, give_away
from interlock._drivers.process.unclaimed import AnyClaim, Claim
from interlock._drivers.stepped import in_c
from interlock._drivers.tasks import LostEvent, finish_later, whole
from interlock._hints import hints
from interlock._misuse import check_long_lease, publish
from interlock._naming import check_plain_callback
from interlock._traceback import shorten
from interlock.errors import (
    HoldLostError,
    InterlockError,
    NotHeldError,
)
from interlock.options import MIN_LEASE, check_lease, lease_of

if TYPE_CHECKING:
    from collections.abc import Callable, Generator, Sequence
    from types import CoroutineType, TracebackType

    from interlock._core.model.effects import Step
    from interlock._core.model.holds import AnyHold, Owner
    from interlock._core.model.holds import Hold as OneHold
    from interlock._drivers.block import Block
    from interlock._drivers.protocol import AwaitedDriver
    from interlock.options import Duration


@hints("client.lock(name), whose block gives it")
class Hold:
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

    __slots__ = ("__weakref__", "_claim", "_driver", "_hold", "_last", "_lost", "_released", "name")

    def __init__(
        self,
        driver: AwaitedDriver,
        hold: AnyHold,
        claim: AnyClaim | None = None,
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

        ``"epoch"``: the servers count their failovers. ``"clock"``: the clock of the server, in a
        cluster that does not. ``"counter"``: nothing but the counter itself, which a failover may
        set back. None: the lock has no token, or the hold was adopted.
        """
        return self._hold.token_source

    @property
    def replicas(self) -> int | None:
        """Return how many replicas had it when it was acquired; None when they were not asked.

        See `Options.replicas`.
        """
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
        """Call *callback* once when the hold is lost; at once if it is already.

        It runs in the event loop. An error in it is reported and stops nothing.
        But ``sys.exit`` ends the loop, as in every callback of asyncio.

        Raises:
            TypeError: *callback* cannot be called, or is a coroutine function.
        """
        check_plain_callback(callback)
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
            ServerUnavailableError: no reply; it may be tried again.
        """
        try:
            await self._driver.perform(self._hold.release())
        except InterlockError as error:
            shorten(error)
            raise
        self._end()

    def _end(self) -> None:
        """Note that the user has released it or given it away."""
        self._released = True
        if self._claim is not None:
            self._claim.over = True

    async def set_lease(self, lease: Duration) -> None:
        """End the hold in *lease* seconds, sooner or later than before; it is not renewed any more.

        ``await hold.set_lease(hold.remaining + 10)`` gives it ten seconds more.

        Args:
            lease: seconds from now.

        Raises:
            ConfigError: it is not a hold of a lock, fair lock, fenced lock or spin lock.
            NotHeldError: it was released.
            HoldLostError: it was lost.
            ServerUnavailableError: no usable answer; it is valid for the shorter of the two times.

        Cost:
            One round trip.
        """
        seconds, driver = check_lease(lease), self._driver
        if seconds > 10 * self.remaining:  # else it is no mistake of the unit
            check_long_lease(lease, driver)
        await driver.run(transfer.set_lease(self._hold, seconds))

    async def hand_over(self, *, lease: Duration | None = None) -> str:
        """Give the hold to another process, without freeing the lock.

        That process passes the result to `Client.adopt`. The hold is over here then, and leaving
        its ``with`` block is not an error. Nobody renews it until it is adopted.

        Args:
            lease: seconds after which the lock is free unless it is adopted before; None for
                `Options.lease`.

        Returns:
            A ticket: text that is good for one adoption. Everybody who reads it can take the lock.

        Raises:
            ConfigError: it is not a hold of a lock, fair lock, fenced lock or spin lock.
            NotHeldError: it was released.
            ReentryError: it is entered more than once.
            HoldLostError: it was lost.
            ServerUnavailableError: no usable answer. The hold goes on, for the ticket's lease or
                until its next renewal, unless it is found to be lost.

        Cost:
            One round trip.
        """
        handles = transfer.transferable(self._hold)[0].handles
        ticket = await self._driver.run(
            transfer.hand_over(self._hold, lease_of(lease, self._driver))
        )
        self._give_away(handles)
        return str(ticket)

    def _give_away(self, handles: Sequence[Callable[[], object]]) -> None:
        """Note that nothing here is to release it."""
        give_away(handles)
        self._end()

    def _end_within(self, seconds: float) -> None:
        """End it *seconds* after now, although it is renewed."""
        transfer.transferable(self._hold)[0].end_by(self._driver.session.clock() + seconds)

    async def _leave_locked(self, seconds: float) -> None:
        """Be over, and leave the lock locked for *seconds*."""
        handles = transfer.transferable(self._hold)[0].handles
        await self._driver.run(transfer.leave_locked(self._hold, max(seconds, MIN_LEASE)))
        self._give_away(handles)

    async def __aenter__(self) -> Self:
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

        async def __aexit__(
            self,
            kind: type[BaseException] | None,
            error: BaseException | None,
            trace: TracebackType | None,
        ) -> None: ...
    else:
        __aenter__ = whole(__aenter__, _struck)
        __aexit__ = Exit(_struck)

    async def _leave(self, block: Block | None, raised: BaseException | None) -> None:
        """Release it at the end of *block*, in any task that leaves it."""
        if self._released or (block is not None and block.over):
            return
        if self._claim is not None:
            self._claim.over = True
        own = self._driver.cancelled_by_loss(raised, self._hold)
        # A wait for a condition puts another one in its place.
        release = self._hold.latest().release()
        # It may have been released inside, or not acquired.
        try:
            await end_block(self._driver, release, block, raised, own=own, once=False)
        except InterlockError as error:
            shorten(error)
            raise


_new = Hold.__new__


def of_block(driver: AwaitedDriver, hold: AnyHold, block: Block | None) -> Hold:
    """Return *hold* for the *block* that gets it; None if a call by hand does.

    The class is not called. That would cost each block 1,000 instructions more (`hints`).
    """
    made = _new(Hold)
    made._driver, made._hold, made._claim, made.name = driver, hold, block, hold.name
    made._released, made._lost, made._last = False, None, None
    return made


def kept(driver: AwaitedDriver, hold: OneHold, caller: Owner, write: str) -> Hold:
    """Return *hold* for a user; *caller* has it if the user drops that.

    Args:
        driver: the client's.
        hold: the hold, just acquired.
        caller: the task that asked.
        write: what a MisuseWarning then recommends.
    """
    return Hold(driver, hold, Claim(driver, hold, caller, write))


# asyncio only
P = ParamSpec("P")
T = TypeVar("T")
H = TypeVar("H", bound=Hold)


_STEPPED = inspect.CORO_RUNNING, inspect.CORO_SUSPENDED


class Unawaited(Coroutine[Any, Any, T]):
    """The result of a method that was called and not awaited yet.

    A coroutine is always true, so ``if lock.acquire():`` would go on without the lock. This raises.
    A scheduler may step it as a coroutine. Its name, frame and state are those of the coroutine.
    While it steps it, it is true.
    """

    __slots__ = ("__weakref__", "_coroutine")

    def __init__(self, coroutine: Coroutine[Any, Any, T]) -> None:
        self._coroutine = coroutine

    def __bool__(self) -> bool:  # to type checkers: NoReturn would hide from them what follows
        if self._is_stepped():
            return True
        self._coroutine.close()
        name = getattr(self._coroutine, "__name__", "this")
        raise TypeError(
            f"{name} has not run yet and has no truth value: write `await` in front of it"
        )

    def _is_stepped(self) -> bool:
        """Return whether a task asks for the truth value: from Python 3.14 on its `repr` does."""
        state = inspect.getcoroutinestate(cast("CoroutineType[Any, Any, T]", self._coroutine))
        asks = sys._getframe(2).f_globals.get("__name__")
        return state in _STEPPED or asks == "asyncio.base_tasks"

    def __await__(self) -> Generator[Any, Any, T]:
        return self._coroutine.__await__()

    def send(self, value: Any, /) -> Any:
        """Go on with *value*."""
        return self._coroutine.send(value)

    def throw(self, *error: Any) -> Any:
        """Go on with *error*."""
        return self._coroutine.throw(*error)

    def close(self) -> None:
        """Give up."""
        self._coroutine.close()


def _as_a_coroutine(self: Unawaited[Any], name: str) -> object:
    """Return what schedulers and `inspect.getcoroutinestate` ask of a coroutine."""
    if name in ("__name__", "__qualname__") or name.startswith("cr_"):
        return getattr(self._coroutine, name)  # pyright: ignore[reportPrivateUsage]
    raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")


# Type checkers shall not know of it.
setattr(Unawaited, "__getattr__", _as_a_coroutine)  # noqa: B010


def _refuse_a_block(self: Unawaited[Any], *_: object) -> None:
    self.close()
    name = getattr(self._coroutine, "__name__", "this")  # pyright: ignore[reportPrivateUsage]
    raise TypeError(
        f"{name}() is no block: write `await {name}()`; a block takes the lock itself, as in "
        "`async with client.lock(name) as hold:`"
    )


# Type checkers shall not know of them.
for _method in ("__aenter__", "__aexit__"):
    setattr(Unawaited, _method, _refuse_a_block)


if not TYPE_CHECKING:
    Unawaited = in_c(Unawaited)


class Attempt(Unawaited[H]):
    """An acquire that gives a hold: ``await`` it, or enter it by ``async with``.

    Leaving the block releases the hold, by any task.
    """

    _hold: H | None = None

    def __bool__(self) -> bool:
        if self._is_stepped():
            return True
        self._coroutine.close()
        raise TypeError("nothing was acquired yet: `await` it, or use `async with`")

    async def __aenter__(self) -> H:
        hold = self._hold = await self._coroutine
        return await hold.__aenter__()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        raised: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self._hold is not None:
            try:
                await self._hold.__aexit__(kind, raised, trace)
            except InterlockError as error:
                shorten(error)
                raise


publish("interlock.asyncio", Attempt, Unawaited)


def attempt(function: Callable[P, Coroutine[Any, Any, H]]) -> Callable[P, Attempt[H]]:
    """Make *function* return what may be awaited or entered."""

    @wraps(function)
    def attempted(*args: P.args, **kwargs: P.kwargs) -> Attempt[H]:
        return Attempt(function(*args, **kwargs))

    return attempted


def awaited(function: Callable[P, Coroutine[Any, Any, T]]) -> Callable[P, Unawaited[T]]:
    """Make *function* return what must be awaited: a truth test of it raises."""

    @wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> Unawaited[T]:
        return Unawaited(function(*args, **kwargs))

    return called


# end
