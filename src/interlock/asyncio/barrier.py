"""The barrier."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

# asyncio only
from interlock import errors

# end
from interlock._drivers.unawaited import awaited
from interlock._hints import hints
from interlock._traceback import outermost
from interlock.options import check_timeout

if TYPE_CHECKING:
    from types import TracebackType

    from interlock._core.objects.barrier import Barrier as CoreBarrier
    from interlock._drivers.aio import AsyncDriver
    from interlock.options import Duration


# asyncio only
class BrokenBarrierError(errors.BrokenBarrierError, asyncio.BrokenBarrierError):
    """What a task gets at a broken barrier: asyncio's error as well as threading's."""


# end
@hints("client.barrier(name, parties)")
class Barrier:
    """A fixed number of parties that wait for each other, as `threading.Barrier`.

    Made by `Client.barrier`. ``async with barrier as index:`` waits before its block.

    Attributes:
        name: what it is called.
        parties: how many it takes.
    """

    __slots__ = ("__weakref__", "_core", "_driver", "_timeout", "name", "parties")

    def __init__(
        self, driver: AsyncDriver, core: CoreBarrier, *, timeout: Duration | None = None
    ) -> None:
        self._driver = driver
        self._core = core
        # asyncio only
        core.error = BrokenBarrierError
        # end
        self._timeout = check_timeout(blocking=True, timeout=timeout)
        self.name = core.name
        self.parties = core.parties

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name!r} parties={self.parties}>"

    async def wait(self, timeout: Duration | None = None) -> int:
        """Wait until all parties have arrived.

        A party whose *timeout* passes breaks the barrier for all. One that is interrupted or
        cancelled takes its arrival back. One that dies breaks the barrier within its lease.

        Returns:
            Which of the parties this one is, from 0 on: each one gets another number.

        Raises:
            BrokenBarrierError: the barrier is broken, was reset, or the time is up.
            ServerUnavailableError: no usable answer in time; the arrival is taken back. If it was
                the last one and was executed, the others have passed.

        Cost:
            One round trip, and one every 2 s while it waits. If this client has not waited here
            within the last second, it looks once more when it is sure to get messages.
        """
        driver = self._driver
        limit = self._timeout if timeout is None else check_timeout(blocking=True, timeout=timeout)
        with outermost:
            return await driver.perform(self._core.wait(driver.session.clock() + limit))

    async def __aenter__(self) -> int:
        """Wait, as `wait` does, and return the index."""
        return await self.wait()

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Do nothing, as `asyncio.Barrier`: the other parties have passed too."""

    async def abort(self) -> None:
        """Break the barrier: all who wait, or come before a `reset`, get BrokenBarrierError.

        It is carried through when it is interrupted; one round trip.
        """
        with outermost:
            await self._driver.perform(self._core.abort())

    async def reset(self) -> None:
        """Make the barrier empty and whole again; all who wait get BrokenBarrierError.

        It is carried through when it is interrupted; one round trip.
        """
        with outermost:
            await self._driver.perform(self._core.reset())

    @property
    # asyncio only
    @awaited
    # end
    async def n_waiting(self) -> int:
        """Return how many parties wait; one round trip."""
        return (await self._driver.run(self._core.status()))[0]

    @property
    # asyncio only
    @awaited
    # end
    async def broken(self) -> bool:
        """Return whether the barrier is broken; one round trip."""
        return (await self._driver.run(self._core.status()))[1]
