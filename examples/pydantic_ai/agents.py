"""At most two model calls at once in the whole fleet, for agents of pydantic-ai."""

import asyncio
import os

from pydantic_ai import AbstractConcurrencyLimiter, Agent
from pydantic_ai.models.test import TestModel

import interlock.asyncio


class FleetLimiter(AbstractConcurrencyLimiter):
    """Shares a limit with all processes.

    pydantic-ai releases without waiting, so a task of its own gives each permit back.
    """

    def __init__(self, limit: interlock.asyncio.Limited) -> None:
        self._limit = limit
        self._permits: list[interlock.asyncio.Permit] = []
        self._returns: set[asyncio.Future[None]] = set()

    async def acquire(self, source: str) -> None:  # noqa: ARG002 - pydantic-ai passes it by name
        """Take a permit; *source* is what pydantic-ai calls the waiter."""
        self._permits.append(await self._limit.acquire())

    def release(self) -> None:
        """Give a permit back, in any task."""
        self._returns.add(asyncio.ensure_future(self._permits.pop().release()))

    async def close(self) -> None:
        """Wait until all permits have been given back."""
        await asyncio.gather(*self._returns)


async def main() -> None:
    """Run four agents, two at a time."""
    async with interlock.asyncio.connect(os.environ["INTERLOCK_URL"]) as client:
        limiter = FleetLimiter(client.limited("model", 2))
        agents = [Agent(TestModel(), max_concurrency=limiter) for _ in range(4)]
        results = await asyncio.gather(*(agent.run("hello") for agent in agents))
        await limiter.close()
        print(len(results), "answers")


asyncio.run(main())
