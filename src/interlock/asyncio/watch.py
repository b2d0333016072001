"""What happens to a lock, for those who do not hold it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from interlock._core.model.effects import Wait
from interlock._drivers.background.aio_change_watchers import Watching
from interlock._drivers.process import clock
from interlock._misuse import wants_async_with
from interlock._naming import check_callback

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

    from interlock._drivers.protocol import AwaitedDriver
    from interlock.inspection.lock_changes import Change, Watcher

PATIENCE = 0.5
"""Seconds after which a sleeping observer looks whether it was closed."""


@wants_async_with
class Observation:
    """Tells of every change until it is closed; made by `Election.observe` and `Watch.observe`."""

    def __init__(self, watching: Watching) -> None:
        self._watching = watching

    async def close(self) -> None:
        """Tell of no more changes; wait for a callback that runs, unless that calls this.

        It also waits for a look that is under way: during an outage, at most the outage time-out.
        """
        await self._watching.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()


@wants_async_with
class Watch:
    """Tells what happens to one lock, in any process; made by `Client.watch`.

    It is an iterator of `Change`, which waits for the next one. It begins with who holds the lock
    now, as ``"acquired"``. After an error, iterate over it again: it tells what has changed since
    its last look. Leave its ``async with`` block, or close it, to close its connections.
    """

    def __init__(
        self, driver: AwaitedDriver, _name: str, _make: Callable[[], Watcher], _every: float
    ) -> None:
        self._driver = driver
        self._name = _name
        self._make = _make
        self._watcher = _make()
        self._every = _every
        self._next_look = 0.0
        self._stopped = False

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._name!r}>"

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Change:
        """Wait for the next change.

        Raises:
            ClosedError: the client was closed.
            ServerUnavailableError: a server cannot be reached, or does not answer.
        """
        _ = await self._changed()
        return self._watcher.changes.popleft()

    def observe(self, callback: Callable[[Change], object]) -> Observation:
        """Call *callback* with each change.

        It runs in the event loop. An error in it is reported and stops nothing.

        Returns:
            An observation: close it, or enter it by ``async with``.

        Raises:
            TypeError: *callback* cannot be called.
            ClosedError: the client is closed.
        """
        check_callback(callback)
        own = Watch(self._driver, self._name, self._make, self._every)
        watching = Watching(
            self._driver,
            f"the lock {self._name!r}",
            own._changed,
            lambda: callback(own._watcher.changes.popleft()),
            own._stop,
            own.close,
        )
        return Observation(watching)

    async def close(self) -> None:
        """Close the connections; iterating over it again makes new ones."""
        await self._driver.aside(self._watcher.close)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.close()

    async def _changed(self) -> bool:
        """Wait until something has changed; return False if it is stopped."""
        while not self._watcher.changes:
            while (now := clock.now()) < self._next_look:
                until = min(self._next_look, now + PATIENCE)
                await self._driver.run(iter(Wait(None, until)))
                if self._stopped:
                    return False
            self._next_look = now + self._every
            await self._driver.aside(self._watcher.look)
        return not self._stopped

    def _stop(self) -> None:
        self._stopped = True
