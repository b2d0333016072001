"""A limit of the whole fleet for pydantic-ai, in its own agents."""

from __future__ import annotations

import asyncio
import logging
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest
from pydantic_ai import Agent
from pydantic_ai.messages import ModelResponse, TextPart
from pydantic_ai.models.function import FunctionModel
from tests.hosts.pages import write_programs

import interlock.asyncio
from interlock import AcquireTimeoutError, NotHeldError
from interlock.pydantic_ai import FleetLimiter

if TYPE_CHECKING:
    from pathlib import Path

    import redis
    from tests.hosts.host_process import Hosts


class Model:
    """Answers after a moment, and notes how many requests ran at once."""

    def __init__(self) -> None:
        self.running = self.most = 0

    async def answer(self, messages: Any, info: Any) -> ModelResponse:
        """Answer one request."""
        self.running += 1
        self.most = max(self.most, self.running)
        await asyncio.sleep(0.01)  # a model takes real time
        self.running -= 1
        return ModelResponse(parts=[TextPart("done")])


async def test_agents_share_a_limit(redis_url: str, redis_client: redis.Redis) -> None:
    """Agents of two clients make at most n requests at once, and leave no permit taken."""
    model = Model()
    async with (
        interlock.asyncio.connect(redis_url) as one,
        interlock.asyncio.connect(redis_url) as two,
    ):
        limiters = [FleetLimiter(client.limited("model", 2)) for client in (one, two)]
        agents = [
            Agent(FunctionModel(model.answer), max_concurrency=limiter) for limiter in limiters * 4
        ]
        results = await asyncio.gather(*(agent.run("hello") for agent in agents))
        for limiter in limiters:
            await limiter.close()
    assert [result.output for result in results] == ["done"] * 8
    assert model.most == 2
    assert redis_client.get("model") == b"2"


async def test_what_fails(redis_url: str, caplog: pytest.LogCaptureFixture) -> None:
    """A wait in vain raises; a release without a permit too; a lost permit is logged."""
    async with interlock.asyncio.connect(redis_url) as client:
        limiter = FleetLimiter(client.limited("model", 1, timeout=0, lease=0.3))
        with pytest.raises(NotHeldError):
            limiter.release()
        await limiter.acquire("model:test")
        with pytest.raises(AcquireTimeoutError):
            await limiter.acquire("model:test")
        await asyncio.sleep(0.35)  # the permit's lease ends
        with caplog.at_level(logging.WARNING, "interlock"):
            limiter.release()
            await limiter.close()
        assert "could not be given back" in caplog.text


def test_the_program_of_the_page(hosts: Hosts, tmp_path: Path) -> None:
    """The agents of the how-to run."""
    write_programs("limit.md", tmp_path)
    done = subprocess.run(
        [sys.executable, "agents.py"], cwd=tmp_path, env=hosts.environ, timeout=60, check=True,
        capture_output=True, text=True,
    )  # fmt: skip
    assert done.stdout == "4 answers\n"
