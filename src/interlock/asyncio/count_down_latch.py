"""The count-down latch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._drivers.unawaited import awaited
from interlock._hints import hints
from interlock._traceback import outermost
from interlock.options import check_timeout

if TYPE_CHECKING:
    from interlock._core.objects.count_down_latch import CountDownLatch as CoreLock
    from interlock._drivers.aio import AsyncDriver
    from interlock.options import Duration


@hints("client.count_down_latch(name)")
class CountDownLatch:
    """A count that opens a gate at 0; made by `Client.count_down_latch`.

    It is shared with Java's RCountDownLatch.

    Attributes:
        name: what it is called.
    """

    __slots__ = ("__weakref__", "_driver", "_recipe", "name")

    def __init__(self, driver: AsyncDriver, core: CoreLock) -> None:
        self._driver = driver
        self._recipe = core
        self.name = core.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    async def try_set_count(self, count: int) -> bool:
        """Set *count* unless the latch has one; return whether it was set; one round trip."""
        return await self._driver.perform(self._recipe.try_set_count(count))

    async def count_down(self) -> None:
        """Take one from the count, and open the latch at 0; one round trip.

        Nothing happens to an open latch. A call that is interrupted is completed. It is still sent
        in the background after a ServerUnavailableError, so do not repeat it.
        """
        _ = await self._driver.perform(self._recipe.count_down())

    async def count(self) -> int:
        """Return the count that is left; 0 if the latch is open or never set; one round trip."""
        return await self._driver.run(self._recipe.count())

    # asyncio only
    @awaited
    # end
    async def wait(self, timeout: Duration | None = None) -> bool:
        """Wait until the latch is open; at once when it is, or was never set.

        Returns:
            Whether it is open within *timeout* seconds.

        Raises:
            LatchDeletedError: it was deleted meanwhile, and will not open.

        Cost:
            One round trip when it is open. While waiting, one per message, and one each 2 s, for
            all waiters of this client.
        """
        limit, driver = check_timeout(blocking=True, timeout=timeout), self._driver
        deadline = driver.session.clock() + limit
        with outermost:
            return await driver.perform(self._recipe.wait(deadline))

    async def delete(self) -> bool:
        """Remove the latch; return whether there was one; one round trip.

        Every `wait` for it raises LatchDeletedError. If ``count=`` names its count, the next call
        of a client that has not set it yet sets it again.
        """
        return await self._driver.perform(self._recipe.delete())
