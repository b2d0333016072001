"""The barrier."""

from __future__ import annotations

import asyncio

# asyncio only
import inspect

# end
from typing import TYPE_CHECKING

# asyncio only
from interlock import errors

# end
from interlock._drivers.awaited import act_for
from interlock._hints import hints
from interlock._naming import check_callback, checked_result
from interlock._traceback import shorten
from interlock.asyncio.hold import awaited
from interlock.options import check_timeout

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from interlock._core.objects.barrier import Barrier as CoreBarrier
    from interlock._drivers.protocol import AwaitedDriver
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

    __slots__ = ("__weakref__", "_action", "_core", "_driver", "_timeout", "name", "parties")

    def __init__(
        self,
        driver: AwaitedDriver,
        core: CoreBarrier,
        *,
        timeout: Duration | None = None,
        action: Callable[[], object] | None = None,
    ) -> None:
        if action is not None:
            check_callback(action)
        self._action = action
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

        If the barrier has an action, the last party runs it while the others wait. If it raises, or
        its process dies, the barrier is broken.

        Args:
            timeout: seconds to wait; -1 for ever, None for the barrier's own.

        Returns:
            Which of the parties this one is: 0 for the first to arrive.

        Raises:
            BrokenBarrierError: the barrier is broken, was reset, or the time is up.
            ValueError: others wait here for another number of parties.
            ServerUnavailableError: no usable answer in time; the arrival is taken back. If it was
                the last one and was executed, the others have passed.
            ClosedError: the client is closed.

        The exception of an action goes on in the party that ran it.

        Cost:
            One round trip for the last party, two with an action. For others one more at the end,
            for all of this client; while they wait, one per message and per poll cap.
        """
        driver = self._driver
        limit = self._timeout if timeout is None else check_timeout(blocking=True, timeout=timeout)
        deadline = driver.session.clock() + limit
        step, arrived = self._core.wait(deadline, acts=self._action is not None), None
        try:
            arrived = await driver.perform(step)
            if isinstance(arrived, int):
                return arrived
            return await act_for(driver, self._core, arrived, self._act)
        except Exception as error:
            if arrived is None:
                shorten(error)  # not an error of the action
            raise
        except BaseException as error:
            # A Ctrl-C came beside the operations, which undo what they have done. A second one may
            # come before `undo` has begun.
            try:
                try:
                    _ = await driver.undo(step, error)
                except BaseException as another:  # noqa: BLE001 - `undo` raises it
                    _ = await driver.undo(step, another)
            except BaseException as last:
                shorten(last)
                raise
            raise

    async def _act(self) -> None:
        """Run the action."""
        assert self._action is not None, "only then a party acts"
        result = self._action()
        # asyncio only
        if inspect.isawaitable(result):
            await result
            return
        # end
        _ = checked_result(result, self._action)

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
        await self._driver.perform(self._core.abort())

    async def reset(self) -> None:
        """Make the barrier empty and whole again; all who wait get BrokenBarrierError.

        It is carried through when it is interrupted; one round trip.
        """
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
