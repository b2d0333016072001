"""The counting semaphore: permits that nobody owns."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Never, Self, cast

from interlock._core.model.hold import FIRST
from interlock._drivers.block import ByHand, Exit, entered
from interlock._drivers.process.whole import give_up
from interlock._drivers.tasks import current_owner
from interlock._drivers.unawaited import awaited
from interlock._hints import hints, told, unexpected
from interlock._misuse import publish
from interlock._traceback import shorten
from interlock.asyncio import trying
from interlock.asyncio.ending import leave
from interlock.asyncio.lock import ending
from interlock.options import FOREVER, check_timeout

if TYPE_CHECKING:
    from interlock._core.model.hold import Claim, Hold
    from interlock._core.objects import semaphore as core
    from interlock._core.objects.counter import Call
    from interlock._drivers.aio import AsyncDriver
    from interlock.asyncio.ending import Exits
    from interlock.options import Duration


class _Entering:
    """What is entered: a semaphore, or a try of one."""

    __slots__ = ("__weakref__", "_core", "_driver", "_parts", "_put")

    _parts: tuple[int, float, float | None, object]
    """How many permits a block takes, how long it waits, what it raises after that, and for whom
    they are if it was entered by hand: the arguments of `core.Semaphore.acquire`."""

    def __init__(self, driver: AsyncDriver, semaphore: core.Semaphore) -> None:
        self._driver, self._core = driver, semaphore
        self._put = driver.session.wake  # hears of the ends of its blocks

    async def __aenter__(self) -> Any:
        claim, (n, limit, timeout, entry) = entered(self), self._parts
        deadline = FOREVER if limit == FOREVER else self._driver.session.clock() + limit
        step = self._core.acquire(n, deadline, timeout, entry if claim is None else claim)
        try:
            _ = await self._driver.perform(step)
            if claim is not None:
                claim.hold = step.has
            return self._got(step.has, claim)
        except BaseException as error:
            give_up(step)
            shorten(error)
            raise

    def _got(self, has: Call | None, claim: Claim | None) -> Any:
        """Return what the block of *claim* gets, which has taken *has*."""
        del has, claim
        return self

    async def _leave_hold(
        self, hold: Hold, claim: Claim | None, error: BaseException | None
    ) -> None:
        """Give back what the block of *claim* has, at its end by *error*."""
        await leave(self._driver, hold.release(claim), error)


class Permits:
    """Permits of a `Semaphore` that a block has taken, or none; truthy until they come back."""

    def __init__(self, driver: AsyncDriver, name: str, has: Call | None) -> None:
        self._driver, self._name, self._has = driver, name, has

    def __repr__(self) -> str:
        return f"<Permits {self._name!r} n={self.n}>"

    def __bool__(self) -> bool:
        return self.n > 0

    @property
    def n(self) -> int:
        """Return how many there are; 0 if they were not taken, or were given back."""
        has = self._has
        return has.wants if has is not None and has.over is None and has.entries else 0

    async def release(self) -> None:
        """Give them back, once; raises as `Semaphore.release`."""
        if self._has is not None:
            await self._driver.perform(self._has.release())


@hints("client.semaphore(name)")
class Semaphore(_Entering):
    """A number of permits, shared with Java's RSemaphore; made by `Client.semaphore`.

    Every client may release, and the permits of a killed process stay taken. If they must come
    back, use `Client.leased_semaphore`. Used by ``async with``, it acquires one permit and releases
    it.

    Attributes:
        name: what it is called.
    """

    __slots__ = ("name",)

    def __init__(
        self,
        driver: AsyncDriver,
        semaphore: core.Semaphore,
        *,
        timeout: Duration | None = None,
    ) -> None:
        super().__init__(driver, semaphore)
        limit = check_timeout(blocking=True, timeout=timeout)
        self._parts = 1, limit, limit, None  # if it is entered by hand, it is left by hand
        self.name = semaphore.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    # asyncio only
    @awaited
    # end
    @told
    async def acquire(
        self, n: int = 1, blocking: bool = True, timeout: Duration | None = None, **_foreign: Never
    ) -> bool:
        """Take *n* permits together, waiting as long as allowed.

        Args:
            n: how many.
            blocking: False for one try.
            timeout: seconds to wait.

        Returns:
            Whether they were taken: all or none.

        Raises:
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
        driver = self._driver
        if timeout is None and blocking is True:
            deadline = FOREVER
        else:
            deadline = driver.session.clock() + check_timeout(blocking, timeout)
        try:
            return await driver.perform(self._core.acquire(n, deadline))
        except BaseException as error:
            shorten(error)
            raise

    def trying(self, n: int = 1, timeout: Duration = 0) -> trying.Trying[Permits]:
        """Return a block that is entered whether or not *n* permits are taken.

        For example ``async with semaphore.trying() as permits: if permits: ...``. Leaving the block
        gives them back. What it gets is falsy if they were not taken.

        The arguments, errors and cost are as of `acquire`.
        """
        limit = check_timeout(blocking=True, timeout=timeout)
        return Trying(self._driver, self._core, n, limit)

    async def release(self, n: int = 1) -> None:
        """Give *n* permits back; a semaphore that does not exist is made; one round trip.

        Nobody asks where they come from: to release more than was acquired adds permits. A release
        that is interrupted once it has begun is completed. If ``permits=`` names the number and the
        semaphore is gone, it is made with that number, among which are the *n*.

        Raises:
            ServerUnavailableError: no reply in time. The release is still being sent in the
                background for a while, so do not repeat it.
        """
        step = self._core.release(n)
        try:
            await self._driver.perform(step)
        except BaseException as error:
            give_up(step)  # a signal may come before `perform` has begun
            shorten(error)
            raise

    async def release_if_exists(self, n: int = 1) -> bool:
        """Give *n* permits back if the semaphore exists, as `release`; return whether it did."""
        return await self._driver.perform(self._core.release(n, "0"))

    if TYPE_CHECKING:

        async def __aenter__(self) -> Self: ...

    __aexit__ = cast("Exits", Exit(ending))

    async def _leave_by_hand(self, error: BaseException | None) -> None:
        """Give back the permit of a block that was entered by hand."""
        await leave(self._driver, self._core.release(1), error)

    async def try_set_permits(self, n: int) -> bool:
        """Make the semaphore with *n* permits unless it exists; return whether it was made."""
        return await self._driver.perform(self._core.try_set_permits(n))

    async def set_permits(self, n: int) -> None:
        """Make free and taken permits add up to *n*, and wake waiters; one round trip.

        No taken permit is taken away: if too many are taken, the number of free ones is below 0,
        and rises with each release.

        Raises:
            ConfigError: another program has set the semaphore up, such as Java, so nobody knows how
                many permits are taken.
        """
        if not await self._driver.perform(self._core.set_permits(n)):
            raise self._core.unknown_total()

    async def add_permits(self, n: int) -> None:
        """Add *n* permits for good, or take them away when *n* is negative; one round trip.

        Taking away does not wait: the number of free ones may fall below 0, and rises again with
        each release. A call that is interrupted is completed, as `release`.
        """
        _ = await self._driver.perform(self._core.add_permits(n))

    async def drain_permits(self) -> int:
        """Take all permits that are free, and return how many; one round trip.

        A number below 0 is made up for and returned, as in Java.

        Errors are as of `acquire`; what was taken is given back.
        """
        return await self._driver.perform(self._core.drain_permits())

    async def delete(self) -> bool:
        """Remove the semaphore; return whether there was one; one round trip.

        Waiters go on waiting. A release makes the semaphore again.
        """
        return await self._driver.perform(self._core.delete())

    async def available_permits(self) -> int:
        """Return how many permits are free; one round trip."""
        return await self._driver.run(self._core.available_permits())


class Trying(_Entering, trying.Trying[Permits]):
    """An acquire for ``async with``, which gives falsy `Permits` if it fails."""

    __slots__ = ("_entered",)

    def __init__(
        self, driver: AsyncDriver, semaphore: core.Semaphore, n: int, limit: float
    ) -> None:
        super().__init__(driver, semaphore)
        self._parts = n, limit, None, FIRST
        self._entered: ByHand[Permits] = ByHand()

    def _got(self, has: Call | None, claim: Claim | None) -> Permits:
        permits = Permits(self._driver, self._core.name, has)
        if claim is None:
            self._entered.enter(current_owner().identity, permits)
        return permits

    if TYPE_CHECKING:

        async def __aenter__(self) -> Permits: ...

    __aexit__ = cast("Exits", Exit(ending))

    async def _leave_by_hand(self, error: BaseException | None) -> None:
        permits = self._entered.leave(current_owner().identity)
        if permits is not None and permits._has is not None:
            await self._leave_hold(permits._has, None, error)


publish("interlock.asyncio", Permits, Trying, _Entering)
