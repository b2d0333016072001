"""The semaphore whose permits have ids and leases; and how permits are taken."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from sys import _getframe  # pyright: ignore[reportPrivateUsage]
from typing import TYPE_CHECKING, Any, Never, Self, cast

from interlock._core.locks.errors import out_of_time
from interlock._core.locks.release import Release
from interlock._core.model.hold import Job
from interlock._core.model.no_hold import NoHold
from interlock._drivers.block import Exit, Kept
from interlock._drivers.known_hold import of_block
from interlock._drivers.process.line import note_line
from interlock._drivers.process.whole import give_up, whole_method
from interlock._drivers.tasks import current_owner
from interlock._drivers.unawaited import attempt, awaited
from interlock._hints import hints, told, unexpected
from interlock._misuse import publish
from interlock._traceback import outermost, shorten
from interlock.asyncio import lock as locks
from interlock.asyncio.lock import Hold
from interlock.options import FOREVER, check_lease, check_timeout, lease_of

if TYPE_CHECKING:
    from types import TracebackType

    from interlock._core.objects import permits as model
    from interlock._drivers.aio import AsyncDriver
    from interlock.asyncio.ending import Exits
    from interlock.options import Duration


@hints("client.leased_semaphore(name), whose acquire() gives it")
class Permit(Hold):
    """One or more permits that were acquired together; truthy while they last.

    Leaving their ``async with`` block gives them back. Without a lease of their own they are
    renewed while this object, or the task that took them, lives.
    """

    __slots__ = ()

    def __repr__(self) -> str:
        if isinstance(self._hold, NoHold):
            return f"<Permit {self.name!r} not acquired>"
        state = "valid" if self.valid else "lost" if self.lost.is_set() else "over"
        return f"<Permit {self.name!r} {state} ids={self.ids}>"

    @property
    def ids(self) -> tuple[str, ...]:
        """Return what the server knows them by, such as 32 hex digits for each permit."""
        ids: tuple[str, ...] = self._hold.ids
        return ids

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await super().__aexit__(kind, error, trace)

    def _struck(self, *_: object) -> None:
        """Give them back, because a signal struck where their block begins or ends."""
        hold = self._hold
        if not isinstance(hold, NoHold) and hold.entries:
            Release().of(hold, hold.entries[-1]).give_up()

    if not TYPE_CHECKING:  # called from C: no signal strikes before the first instruction
        __aenter__ = whole_method(__aenter__, _struck)
        __aexit__ = whole_method(__aexit__, _struck)


class Takes:
    """What permits are taken from by hand."""

    __slots__ = ()

    if TYPE_CHECKING:
        _driver: AsyncDriver

    async def _taken(self, core: model.Permits, limit: float, lease: float | None) -> Permit | None:
        """Return a permit; None if there was none in time."""
        driver, kept = self._driver, Kept()
        deadline = FOREVER if limit == FOREVER else driver.session.clock() + limit
        step: model.Take = core.acquiring().of(core, current_owner(), deadline, lease, Job(kept))
        try:
            hold = await driver.perform(step)
            if hold is None:
                return None
            frame = _getframe(2)
            hold.line = frame.f_code, frame.f_lasti
            return of_block(Permit, driver, hold, kept)
        except BaseException:
            give_up(step)
            raise


class Trying(locks.Trying):
    """An acquire of permits for ``async with``, which gives a falsy object if it fails.

    Args:
        semaphore: of which they are.
        core: what gives them.
        limit: seconds to wait.
        lease: seconds after which they end by themselves; None if they are renewed.
    """

    __slots__ = ("_semaphore",)

    def __init__(
        self, semaphore: LeasedSemaphore, core: Any, limit: float, lease: float | None
    ) -> None:
        super().__init__(semaphore._driver, core, limit, lease)
        self._semaphore = semaphore

    async def __aenter__(self) -> Permit:
        with outermost:
            if self._semaphore._number.unset:
                await self._semaphore._set_up(self._parts[2])
            permit: Any = await super().__aenter__()
        note_line(permit._hold, 1)
        return cast("Permit", permit)

    async def _refused(self, driver: AsyncDriver, core: Any, limit: float) -> Permit:
        del limit
        return of_block(Permit, driver, NoHold(core, current_owner(), None), self)

    def _block_of(self, hold: Any, claim: Any) -> Permit:
        return of_block(Permit, self._driver, hold, self, claim)

    __aexit__ = cast("Exits", Exit(locks.ending))


@hints("client.leased_semaphore(name)")
class LeasedSemaphore(Takes):
    """A number of permits with ids and leases; made by `Client.leased_semaphore`.

    It is shared with Java's RPermitExpirableSemaphore. The permits of a killed process come back
    when their leases end.

    Attributes:
        name: what it is called.
    """

    __slots__ = ("__weakref__", "_core", "_driver", "_number", "name")

    def __init__(self, driver: AsyncDriver, core: model.LeasedPermits) -> None:
        self._driver, self._core, self._number = driver, core, core.number
        self.name = core.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    # asyncio only
    @attempt
    # end
    @told
    async def acquire(
        self,
        n: int = 1,
        timeout: Duration | None = None,
        lease: Duration | None = None,
        **_foreign: Never,
    ) -> Permit:
        """Take *n* permits together, waiting as long as allowed.

        Args:
            n: how many, at most 10,000.
            timeout: seconds to wait.
            lease: seconds after which they end by themselves; None for permits that are renewed
                until they are released.

        Raises:
            AcquireTimeoutError: they did not become free in time.
            ReplicationError: too few replicas acknowledged it, and `Options.replicas` requires
                them; nothing stays taken.

        Cost:
            One round trip when they are free.
        """
        if _foreign:
            raise unexpected(self.acquire, _foreign)
        # asyncio only
        del _foreign  # many tasks may wait here: one object less for each
        # end
        limit = FOREVER if timeout is None else check_timeout(blocking=True, timeout=timeout)
        try:
            core, seconds = self._of(n), self._lease(lease)
            if self._number.unset:
                await self._set_up(limit)
            permit = await self._taken(core, limit, seconds)
            if permit is None:
                raise out_of_time(core.kind, self.name, n, limit)  # noqa: TRY301 - see `shorten`
        except BaseException as error:
            shorten(error)
            raise
        return permit

    # asyncio only
    @awaited
    # end
    async def try_acquire(
        self, n: int = 1, timeout: Duration = 0, lease: Duration | None = None
    ) -> Permit | None:
        """Take *n* permits as `acquire` does, or return None if they do not become free in time."""
        limit = check_timeout(blocking=True, timeout=timeout)
        try:
            core, seconds = self._of(n), self._lease(lease)
            if self._number.unset:
                await self._set_up(limit)
            return await self._taken(core, limit, seconds)
        except BaseException as error:
            shorten(error)
            raise

    def trying(self, n: int = 1, timeout: Duration = 0, lease: Duration | None = None) -> Trying:
        """Return a block that is entered whether or not *n* permits are taken.

        For example ``async with semaphore.trying() as permit: if permit: ...``. Leaving the block
        gives them back. The permit is empty and falsy if they were not taken.

        The arguments, errors and cost are as of `try_acquire`.
        """
        limit = check_timeout(blocking=True, timeout=timeout)
        return Trying(self, self._of(n), limit, self._lease(lease))

    def _of(self, n: int) -> model.LeasedPermits:
        """Return what takes *n* permits together."""
        return self._core if type(n) is int and n == 1 else self._core.taking(n)

    def _lease(self, lease: Duration | None) -> float | None:
        """Return *lease* in seconds."""
        seconds = lease_of(lease, self._driver)
        if seconds is not None:
            self._number.check_lease(seconds)
        return seconds

    async def release(self, permit: Permit | str) -> None:
        """Give back *permit*, or the one with that id, in any process; one round trip.

        Raises:
            NotHeldError: nobody holds it; nothing was changed.
            HoldLostError: it was lost before.
            ValueError: it is the id of one of several that were acquired together; give the permit.
            ServerUnavailableError: no reply; it may be tried again.
        """
        if isinstance(permit, Permit):
            if permit.name != self.name:
                raise self._core.of_another(permit.name)
            await permit.release()
        elif (hold := self._core.known(permit)) is not None:
            await of_block(Permit, self._driver, hold, None).release()
        else:
            await self._driver.run(self._core.give_back(permit))

    async def extend(self, permit: Permit | str, lease: Duration) -> None:
        """Lengthen the lease of *permit*, or of the one with that id, as `Permit.extend` does.

        Errors and cost are as of `release`.
        """
        self._number.check_lease(check_lease(lease))
        if isinstance(permit, Permit):
            if permit.name != self.name:
                raise self._core.of_another(permit.name)
            await permit.extend(lease)
        elif (hold := self._core.known(permit)) is not None:
            await of_block(Permit, self._driver, hold, None).extend(lease)
        else:
            await self._driver.run(self._core.prolong(permit, check_lease(lease)))

    async def try_set_permits(self, n: int) -> bool:
        """Make the semaphore with *n* permits unless it exists; return whether it was made."""
        return await self._driver.perform(self._number.try_set_permits(n))

    async def set_permits(self, n: int) -> None:
        """Make free and held permits add up to *n*; no held one is taken away; one round trip."""
        _ = await self._driver.perform(self._number.set_permits(n))

    async def add_permits(self, n: int) -> None:
        """Add *n* permits for good, or take them away when *n* is negative; one round trip."""
        await self._set_up()
        _ = await self._driver.perform(self._number.add_permits(n))

    async def delete(self) -> bool:
        """Remove the semaphore and all permits; return whether there was one; one round trip.

        Permits that are held are lost. Waiters go on waiting.
        """
        return await self._driver.perform(self._number.delete())

    async def permits(self) -> int:
        """Return how many permits there are, free and held; one round trip."""
        return sum(await self._driver.run(self._number.counts()))

    async def acquired_permits(self) -> int:
        """Return how many permits are held, or given to a waiter, anywhere; one round trip."""
        return await self._driver.run(self._number.held())

    async def available_permits(self) -> int:
        """Return how many permits are free; one round trip."""
        return (await self._driver.run(self._number.counts()))[0]

    async def _set_up(self, limit: float = FOREVER) -> None:
        """Set the number of permits if the code names one, before the first call of the client."""
        if self._number.unset:
            deadline = FOREVER if limit == FOREVER else self._driver.session.clock() + limit
            await self._driver.run(self._number.set_up(deadline))


publish("interlock.asyncio", Trying, Takes)  # help() shows no name of what is inside
