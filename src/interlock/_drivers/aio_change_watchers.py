"""Observers of elections for asyncio and trio: each is a task that waits for changes and tells of them."""

from __future__ import annotations

import asyncio
import inspect
from typing import TYPE_CHECKING, Any

from interlock._core.model.effects import Wait
from interlock._drivers.change_watchers import RETRY
from interlock._drivers.process import clock
from interlock._drivers.process.lifecycle import report
from interlock.errors import ClosedError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from interlock._core.model.effects import Op


class Watching:
    """A task that tells of changes until it is stopped.

    Args:
        driver: the client's.
        what: is observed, in words.
        changed: waits for a change. It returns False when it is stopped.
        tell: calls the user, in the event loop. An awaitable result is awaited.
        stop: ends *changed*.

    Raises:
        ClosedError: the client is closed.
    """

    def __init__(
        self,
        driver: Any,
        what: str,
        changed: Callable[[], Awaitable[bool]],
        tell: Callable[[], object],
        stop: Callable[[], None],
    ) -> None:
        if driver.closed:
            raise ClosedError("the client is closed")
        self._driver = driver
        self._what = what
        self._changed = changed
        self._tell = tell
        self._stop = stop
        self._ended = driver.start(self._run)

    async def _run(self) -> None:
        while True:
            try:
                if not await self._changed():
                    return
            except ClosedError:
                return
            except Exception as error:  # noqa: BLE001 - it is reported; the next look may succeed
                report(f"an observer of {self._what}", error)
                if not await self._pause():
                    return
                continue
            await self._call()

    async def _pause(self) -> bool:
        """Wait before the next look; return whether the client is open."""
        try:
            await self._driver.run(_pausing(clock.now() + RETRY))
        except ClosedError:
            return False
        return True

    async def _call(self) -> None:
        try:
            told = self._tell()
            if inspect.isawaitable(told):
                await told
        except Exception as error:  # noqa: BLE001 - the user's code; the next change is told too
            report(f"a callback of {self._what}", error)
        except asyncio.CancelledError as error:
            # Something that the callback awaited was cancelled, or this task is.
            if _is_being_cancelled():
                raise
            report(f"a callback of {self._what}", error)

    async def close(self) -> None:
        """End the observer; wait for a callback that runs, unless the callback calls this."""
        self._stop()
        await self._ended()


def _pausing(until: float) -> Op[None]:
    yield from Wait(None, until)


def _is_being_cancelled() -> bool:
    try:
        task = asyncio.current_task()
    except RuntimeError:  # trio cancels by an exception of its own
        return False
    return task is not None and task.cancelling() > 0
