"""At most n model calls at once in the whole fleet, for pydantic-ai.

``Agent(..., max_concurrency=FleetLimiter(client.limited("openai", 5)))``, or
``ConcurrencyLimitedModel(model, limiter=...)`` for all agents that share a model.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING

from pydantic_ai import AbstractConcurrencyLimiter

from interlock.errors import InterlockError, NotHeldError

if TYPE_CHECKING:
    from interlock.asyncio import Limited, Permit

__all__ = ["FleetLimiter"]

_LOGGER = logging.getLogger("interlock")


class FleetLimiter(AbstractConcurrencyLimiter):
    """Shares a limit with all processes.

    pydantic-ai releases without waiting. So the permit is given back by a task of its own, a round
    trip later. Call `close` before the client is closed.

    Args:
        limit: of a client of `interlock.asyncio`.
    """

    def __init__(self, limit: Limited) -> None:
        self._limit = limit
        self._permits: list[Permit] = []
        self._releasing: set[asyncio.Task[None]] = set()

    async def acquire(self, source: str) -> None:
        """Take a permit; *source* is what pydantic-ai calls the waiter.

        Raises:
            AcquireTimeoutError: none became free within the limit's *timeout*.
            InterlockError: as `Limited.acquire`.
        """
        del source
        self._permits.append(await self._limit.acquire())

    def release(self) -> None:
        """Give a permit back, in any task.

        Raises:
            NotHeldError: none was taken.
        """
        if not self._permits:
            raise NotHeldError(f"no permit of {self._limit!r} is held")
        task = asyncio.ensure_future(_give_back(self._permits.pop()))
        self._releasing.add(task)
        task.add_done_callback(self._releasing.discard)

    async def close(self) -> None:
        """Wait until all permits that were released have been given back."""
        _ = await asyncio.gather(*self._releasing)


async def _give_back(permit: Permit) -> None:
    try:
        await permit.release()
    except InterlockError as error:
        # Nobody waits for this task. The permit comes back with its lease.
        _LOGGER.warning(
            "a permit of %r could not be given back: %s",
            permit.name,
            error,
            extra={"event": "permit.not_returned", "lock_name": permit.name},
        )
