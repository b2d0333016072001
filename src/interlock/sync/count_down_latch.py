# Generated from interlock/asyncio/count_down_latch.py by tools/make_sync.py; change that file.
"""The count-down latch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from interlock._core.model.effects import NEVER
from interlock._hints import hints
from interlock._traceback import shorten
from interlock.options import check_timeout

if TYPE_CHECKING:
    from interlock._core.objects.count_down_latch import CountDownLatch as CoreLock
    from interlock._drivers.protocol import BlockingDriver
    from interlock.options import Duration


@hints("client.count_down_latch(name)")
class CountDownLatch:
    """A count that opens a gate at 0; made by `Client.count_down_latch`.

    It is shared with Java's RCountDownLatch.

    Attributes:
        name: what it is called.
    """

    __slots__ = ("__weakref__", "_driver", "_recipe", "name")

    def __init__(self, driver: BlockingDriver, core: CoreLock) -> None:
        self._driver = driver
        self._recipe = core
        self.name = core.name

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r}>"

    def _set_up(self, deadline: float = NEVER) -> None:
        """Set the count if the code names one, before the first call of the client."""
        if self._recipe.unset:
            _ = self._driver.run(self._recipe.set_up(deadline))

    def try_set_count(self, count: int) -> bool:
        """Set *count* unless the latch has one; return whether it was set; one round trip.

        Raises:
            TypeError: *count* is not an int.
            ValueError: *count* is less than 1.
            ServerUnavailableError: no usable answer; it may have been set.
        """
        return self._driver.run(self._recipe.try_set_count(count))

    def count_down(self) -> None:
        """Take one from the count, and open the latch at 0; one round trip.

        Nothing happens to an open latch. A call that is interrupted is carried through.

        Raises:
            ServerUnavailableError: no reply in time. The call is still being sent in the background
                for a while, so do not repeat it.
        """
        _ = self._driver.perform(self._recipe.count_down())

    def count(self) -> int:
        """Return the count that is left; 0 if the latch is open or never set; one round trip."""
        self._set_up()
        return self._driver.run(self._recipe.count())

    def wait(self, timeout: Duration | None = None) -> bool:
        """Wait until the latch is open; at once when it is, or was never set.

        Returns:
            Whether it is open within *timeout* seconds.

        Raises:
            LatchDeletedError: it was deleted meanwhile, and will not open.

        Cost:
            One round trip when it is open. While waiting, one per message and per poll cap for all
            waiters of this client, and one for each waiter in the end.
        """
        limit, driver = check_timeout(blocking=True, timeout=timeout), self._driver
        deadline = driver.session.clock() + limit
        try:
            self._set_up(deadline)
            return driver.run(self._recipe.wait(deadline))
        except BaseException as error:
            shorten(error)
            raise

    def delete(self) -> bool:
        """Remove the latch; return whether there was one; one round trip.

        Every `wait` for it raises LatchDeletedError. If ``count=`` names its count, the next call
        of a client that has not set it yet sets it again.
        """
        return self._driver.run(self._recipe.delete())
