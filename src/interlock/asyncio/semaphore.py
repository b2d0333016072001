"""The counting semaphore: permits that nobody owns."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Never, Self

from interlock._drivers.awaited import end_by
from interlock._drivers.awaited_block import exits
from interlock._drivers.block import entered
from interlock._drivers.unawaited import awaited
from interlock._hints import hints, told, unexpected
from interlock._misuse import publish
from interlock._traceback import shorten
from interlock.asyncio.trying import Trying
from interlock.options import FOREVER, check_timeout

if TYPE_CHECKING:
    from interlock._core.model.effects import Step
    from interlock._core.objects.semaphore import Semaphore as CoreLock
    from interlock._core.objects.semaphore import Taking
    from interlock._drivers.block import Block
    from interlock._drivers.protocol import AwaitedDriver
    from interlock.options import Duration


class Permits:
    """Permits of a `Semaphore` that a block has taken, or none; truthy until they come back."""

    def __init__(self, driver: AwaitedDriver, core: CoreLock) -> None:
        self._driver = driver
        self._core = core
        self._taken = self._epoch = 0
        self._acquire: Taking | None = None
        self._step: Step[bool] | None = None

    def __repr__(self) -> str:
        return f"<Permits {self._core.name!r} n={self.n}>"

    def __bool__(self) -> bool:
        return self.n > 0

    @property
    def n(self) -> int:
        """Return how many there are; 0 if they were not taken, or were given back."""
        taken = self._acquire
        return 0 if taken is None else self._core.session.open_blocks.get(taken, 0)

    async def _take(self, n: int, acquire: Taking, block: Block | None) -> None:
        """Take *n* permits by *acquire* for *block*."""
        if block is not None:
            block.got = self
            block.begin(self._driver, self._core.name, self._left)
        self._acquire, open_blocks = acquire, self._core.session.open_blocks
        if await self._driver.perform(acquire) is not False:
            # Nothing here makes a call, so no Ctrl-C comes in between.
            self._epoch = acquire.epoch
            self._taken = n
            open_blocks[acquire] = n

    def _left(self) -> Step[bool] | None:
        """Return the operation that still has to give them back, if any."""
        if not self._taken:
            return None
        step = self._step
        if step is None:
            assert self._acquire is not None
            # First of all, so that the end of the client does not give them back, too.
            _ = self._core.session.open_blocks.pop(self._acquire, None)
            step = self._step = self._core.release(self._taken, self._epoch)
            self._core.leave_to(step)
        return None if step.over() else step

    async def release(self) -> None:
        """Give them back, once; raises as `Semaphore.release`."""
        # Only one of several tasks gets it, or the end of the client.
        n = 0 if self._acquire is None else self._core.session.open_blocks.pop(self._acquire, 0)
        if n == 0:
            return
        step = self._step = self._core.release(n, self._epoch)
        if not await self._driver.perform(step):
            self._core.tell_gone(n)

    async def _leave(self, block: Block | None, raised: BaseException | None) -> None:
        """Give them back at the end of *block*."""
        await end_by(self.release, raised)
        if block is not None:
            block.left = None


@hints("client.semaphore(name)")
class Semaphore:
    """A number of permits, shared with Java's RSemaphore; made by `Client.semaphore`.

    Every client may release, and the permits of a killed process stay taken. If they must come
    back, use `Client.leased_semaphore`. Used by ``async with``, it acquires one permit and releases
    it.

    Attributes:
        name: what it is called.
    """

    __slots__ = ("__weakref__", "_driver", "_recipe", "_timeout", "name")

    def __init__(
        self, driver: AwaitedDriver, core: CoreLock, *, timeout: Duration | None = None
    ) -> None:
        self._driver = driver
        self._recipe = core
        self._timeout = check_timeout(blocking=True, timeout=timeout)
        self.name = core.name

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
            return await driver.perform(self._recipe.acquire(n, deadline))
        except BaseException as error:
            shorten(error)
            raise

    def trying(self, n: int = 1, timeout: Duration = 0) -> Trying[Permits]:
        """Return a block that is entered whether or not *n* permits are taken.

        For example ``async with semaphore.trying() as permits: if permits: ...``. Leaving the block
        gives them back. What it gets is falsy if they were not taken.

        The arguments, errors and cost are as of `acquire`.
        """
        limit = check_timeout(blocking=True, timeout=timeout)
        return Trying(partial(self._try, n, limit))

    async def _try(self, n: int, limit: float, block: Block | None) -> Permits:
        """Take *n* permits for *block*, or none."""
        driver, core = self._driver, self._recipe
        permits = Permits(driver, core)
        await permits._take(n, core.acquire(n, driver.session.clock() + limit), block)
        return permits

    async def release(self, n: int = 1) -> None:
        """Give *n* permits back; a semaphore that does not exist is made; one round trip.

        Nobody asks where they come from: to release more than was acquired adds permits. A release
        that is interrupted is carried through.

        If this client has acquired permits, or names their number, and the semaphore is gone, then
        the server has lost it. It is not made again, and the log tells so. Permits that this client
        took before add nothing to a semaphore that was made anew.

        Raises:
            ServerUnavailableError: no reply in time. The release is still being sent in the
                background for a while, so do not repeat it.
        """
        step = None
        try:
            step = self._recipe.prepared(self._recipe.release(n))
            if not await self._driver.perform(step):
                self._recipe.tell_gone(n)
        except Exception:
            raise
        except BaseException as error:
            # A Ctrl-C came before the step has begun, which would have gone on. A second one may
            # come before `undo` has begun.
            try:
                step = step or self._recipe.release(n)
                _ = await self._driver.undo(step, error)
            except BaseException as another:  # noqa: BLE001 - `undo` raises it
                _ = await self._driver.undo(step or self._recipe.release(n), another)
            raise

    async def release_if_exists(self, n: int = 1) -> bool:
        """Give *n* permits back if the semaphore exists, as `release`; return whether it did."""
        step = self._recipe.release_if_exists(n)
        return await self._driver.perform(self._recipe.prepared(step))

    async def _set_up(self) -> None:
        """Set the number of permits if the code names one, before the first call of the client.

        Set it again if it has ended.
        """
        if self._recipe.unset:
            _ = await self._driver.run(self._recipe.set_up())

    async def __aenter__(self) -> Self:
        block = entered(self)
        limit, driver, core = self._timeout, self._driver, self._recipe
        step = core.acquire(1, driver.session.clock() + limit, limit)
        try:
            if block is None:  # called by hand, as its end will be
                await driver.perform(step)
            else:
                await Permits(driver, core)._take(1, step, block)
        except BaseException as error:
            shorten(error)
            raise
        return self

    __aexit__ = exits()

    async def _leave(self, block: Block, raised: BaseException | None) -> None:
        """Give back the permit of *block*, in any task that leaves it."""
        permits: Permits | None = block.got
        if permits is not None:
            await permits._leave(block, raised)
        else:
            await end_by(self.release, raised)

    async def try_set_permits(self, n: int) -> bool:
        """Make the semaphore with *n* permits unless it exists; return whether it was made."""
        return await self._driver.run(self._recipe.try_set_permits(n))

    async def set_permits(self, n: int) -> None:
        """Make free and taken permits add up to *n*, and wake waiters; one round trip.

        No taken permit is taken away: if too many are taken, the number of free ones is below 0,
        and rises with each release.

        Raises:
            ConfigError: another program has set the semaphore up, such as Java, so nobody knows how
                many permits are taken.
        """
        await self._driver.run(self._recipe.set_permits(n))

    async def add_permits(self, n: int) -> None:
        """Add *n* permits for good, or take them away when *n* is negative; one round trip.

        Taking away does not wait: the number of free ones may fall below 0, and rises again with
        each release.

        Raises:
            ServerUnavailableError: no reply in time; it is being undone if it was executed.
        """
        await self._set_up()
        await self._driver.perform(self._recipe.add_permits(n))

    async def drain_permits(self) -> int:
        """Take all permits that are free, and return how many; one round trip.

        A number below 0 is made up for and returned, as in Java.

        Raises:
            ServerUnavailableError: no reply in time; what was taken is being given back.
            ReplicationError: too few replicas acknowledged it, and `Options.replicas` requires
                them; nothing stays taken.
        """
        await self._set_up()
        return await self._driver.perform(self._recipe.drain_permits())

    async def delete(self) -> bool:
        """Remove the semaphore; return whether there was one; one round trip.

        Waiters go on waiting. A release of a permit that another client took before makes the
        semaphore again, unless the number is named by ``permits=``.
        """
        return await self._driver.run(self._recipe.delete())

    async def available_permits(self) -> int:
        """Return how many permits are free; one round trip."""
        await self._set_up()
        return await self._driver.run(self._recipe.available_permits())


publish("interlock.asyncio", Permits)
