"""FastAPI on a real uvicorn leaves no lock behind.

It enters and leaves a generator dependency in different threads.
"""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import TYPE_CHECKING

import fastapi
import httpx
import pytest
import pytest_asyncio
from tests.hosts.serving import served
from tests.support.servers import wait_until

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

    import redis

LOCKS = 40


def _application(url: str) -> fastapi.FastAPI:
    app = fastapi.FastAPI()
    client = interlock.connect(url, card=False)  # a card may stay for a minute
    tasks = interlock.asyncio.connect(url, card=False)
    shared = client.read_write_lock("shared").read

    def locked(number: int) -> Iterator[None]:
        with client.lock(f"thread {number}", timeout=60) as hold:
            yield
            hold.ensure()

    def tried(number: int) -> Iterator[None]:
        with client.try_lock(f"tried {number}", timeout=60) as hold:
            yield
            hold.ensure()

    def read(number: int) -> Iterator[None]:
        with shared as hold:
            yield
            hold.ensure()

    async def awaited(number: int) -> AsyncIterator[None]:
        async with tasks.lock(f"task {number}", timeout=60) as hold:
            yield
            hold.ensure()

    in_threads = [fastapi.Depends(dependency) for dependency in (locked, tried, read)]

    @app.get("/threads/{number}", dependencies=in_threads)
    def answer(number: int) -> int:
        return number

    @app.get("/tasks/{number}", dependencies=[fastapi.Depends(awaited)])
    async def answer_in_a_task(number: int) -> int:
        return number

    @app.get("/fails/{number}", dependencies=in_threads)
    def fail(number: int) -> None:
        raise fastapi.HTTPException(500, f"endpoint {number} failed")

    async def close() -> None:
        client.close()
        await tasks.close()

    app.router.add_event_handler("shutdown", close)
    return app


@pytest.fixture
def application(redis_url: str) -> Iterator[str]:
    """Give the address of an application that locks."""
    with served(_application(redis_url)) as address:
        yield address


@pytest.mark.parametrize("concurrency", [1, 2, 4, 32])
async def test_no_lock_stays_behind(
    application: str, redis_client: redis.Redis, concurrency: int
) -> None:
    """After 40 requests for different locks, none is held, even if the endpoints failed.

    *concurrency* requests run at a time.
    """
    gate = asyncio.Semaphore(concurrency)

    async def ask(path: str) -> httpx.Response:
        async with gate:
            return await client.get(f"{application}/{path}")

    async with httpx.AsyncClient(timeout=90) as client:
        for kind, status in (("threads", 200), ("tasks", 200), ("fails", 500)):
            asked = (ask(f"{kind}/{number}") for number in range(LOCKS))
            answers = await asyncio.gather(*asked)
            assert [answer.status_code for answer in answers] == [status] * LOCKS

    # What a dependency does after its yield may come after the response.
    def left() -> list[bytes]:
        # The place of a client that asked twice on a busy machine stays for a while.
        return [key for key in redis_client.scan_iter() if b"_queue:" not in key]

    with suppress(TimeoutError):  # the assertion names what is left
        wait_until(lambda: not left(), 5, "no lock is held")
    assert left() == []


@pytest_asyncio.fixture
async def held(redis_url: str) -> AsyncIterator[interlock.asyncio.Hold]:
    """Give a hold, whose block pytest-asyncio leaves in another task."""
    async with interlock.asyncio.connect(redis_url) as client:
        async with client.lock("fixture", timeout=5) as hold:
            yield hold
        assert not hold
        assert not await client.lock("fixture").locked()


async def test_a_fixture_that_yields_inside_a_block(held: interlock.asyncio.Hold) -> None:
    """A pytest-asyncio fixture that yields inside a block frees its lock at its end."""
    assert held.valid
