"""The condition."""

# The classes of a face share what users do not see.
# pyright: reportPrivateUsage=false

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, TypeVar, cast

from interlock._core.objects.leased_waiters import MOST
from interlock._drivers.awaited_block import Exit, exits
from interlock._drivers.tasks import current_owner
from interlock._hints import hints
from interlock._naming import checked_result
from interlock._traceback import shorten
from interlock.options import check_number, check_timeout

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock._core.objects.condition import Condition as CoreCondition
    from interlock._drivers.block import Block
    from interlock._drivers.protocol import AwaitedDriver
    from interlock.asyncio.hold import Hold
    from interlock.asyncio.lock import Lock
    from interlock.options import Duration

T = TypeVar("T")


class _ExitOfLock(Exit):
    """The ``__aexit__`` of a condition: its lock's."""

    def __get__(self, condition: Any, kind: Any = None) -> Any:
        """Return the end of a new block of the lock."""
        return super().__get__(None if condition is None else condition.lock, kind)


@hints("client.condition(lock)")
class Condition:
    """A condition of a lock, as `threading.Condition`; made by `Client.condition`.

    ``async with condition:`` holds the lock. In the block `wait` waits for a notification, and
    `notify` wakes who waits.

    Attributes:
        name: what it is called.
        lock: what its users hold.
    """

    __slots__ = ("__weakref__", "_core", "_driver", "lock", "name")

    def __init__(self, driver: AwaitedDriver, core: CoreCondition, lock: Lock) -> None:
        self._driver = driver
        self._core = core
        self.lock = lock
        self.name = core.name

    def __repr__(self) -> str:
        lock = f"{type(self.lock).__name__} {self.lock.name!r}"
        return f"<{type(self).__name__} {self.name!r} of {lock}>"

    async def acquire(
        self,
        blocking: bool = True,
        timeout: Duration | None = None,
        *,
        lease: Duration | None = None,
    ) -> bool:
        """Acquire the lock; arguments, errors and cost as `Lock.acquire`."""
        return await self.lock.acquire(blocking, timeout, lease=lease)

    async def release(self) -> None:
        """Release the lock; errors and cost as `Lock.release`."""
        await self.lock.release()

    async def __aenter__(self) -> Hold:
        return await self.lock.__aenter__()

    __aexit__ = exits(kind=_ExitOfLock)

    async def _leave(self, block: Block, raised: BaseException | None) -> None:
        """Release what *block* acquired."""
        await self.lock._leave(block, raised)

    @property
    def hold(self) -> Hold | None:
        """Return this owner's hold of the lock, or None; after a `wait` it is another one."""
        return self.lock.hold

    async def wait(self, timeout: Duration | None = None) -> bool:
        """Release the lock, wait for a notification, and acquire the lock again.

        However it ends, the lock is held again as deep as before, or HoldLostError is raised. That
        goes for a cancellation too: it is raised when the lock is held. The notification of a
        waiter that is cancelled or dies goes to the next one.

        Returns:
            Whether it was notified within *timeout* seconds; the lock is waited for as long as it
            takes. False also if this process was frozen or cut off for its lease.

        Raises:
            NotHeldError: this owner does not hold the lock.
            HoldLostError: the lock was lost, or could not be acquired again.

        Cost:
            Three round trips besides the lock's. While it waits, one per poll cap.
        """
        driver = self._driver
        limit = check_timeout(blocking=True, timeout=timeout)
        try:
            return await self._wait(driver.session.clock() + limit)
        except BaseException as error:
            shorten(error)
            raise

    async def _wait(self, deadline: float) -> bool:
        driver, owner = self._driver, current_owner()
        notified: bool = await driver.perform(self._core.wait(owner, deadline))
        # asyncio only
        hold = self.lock._core.hold_of(owner)
        if self.lock.cancel_on_lost and hold is not None:
            driver.cancel_on_lost(hold)
        # end
        return notified

    async def wait_for(
        self, predicate: Callable[[], T | Awaitable[T]], timeout: Duration | None = None
    ) -> T:
        """Wait until *predicate* returns something true; the lock is held when it is called.

        Returns:
            What *predicate* returned last; something false when the time is up.
        """
        driver = self._driver
        deadline = driver.session.clock() + check_timeout(blocking=True, timeout=timeout)
        while True:
            result = await _ask(predicate)
            if result or driver.session.clock() >= deadline:
                return result
            _ = await self._wait(deadline)

    async def notify(self, n: int = 1) -> None:
        """Notify *n* waiters, those that came first; fewer if there are fewer.

        They go on when the lock is free. It is carried through when it is interrupted.

        Raises:
            NotHeldError: this owner does not hold the lock; nobody was notified.
            HoldLostError: the lock is lost; nobody was notified.
            ServerUnavailableError: no reply in time. It is still being sent in the background.

        Cost:
            One round trip, and a message for each waiter that is notified.
        """
        count = check_number(n, "waiters", 0, MOST)
        await self._driver.perform(self._core.notify(current_owner(), count))

    async def notify_all(self) -> None:
        """Notify all waiters; errors and cost as `notify`."""
        await self._driver.perform(self._core.notify(current_owner(), -1))


async def _ask(predicate: Callable[[], T | Awaitable[T]]) -> T:
    answer = predicate()
    # asyncio only
    if inspect.isawaitable(answer):
        return cast("T", await answer)
    # end
    return checked_result(answer, predicate)
