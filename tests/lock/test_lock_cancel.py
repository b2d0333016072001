"""Cancellation of asyncio's operations at every single point where they wait."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, get_args

import pytest
from tests.lock.interrupting import Moment, Points
from tests.lock.lock_like import until
from tests.support.cards import own_keys
from tests.support.patience import let_others_run

import interlock.asyncio
from interlock import AcquireTimeoutError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Coroutine
    from typing import Any

    import redis

    from interlock.asyncio import Client, Lock

    Prepare = Callable[[Client], Awaitable[Coroutine[Any, Any, object]]]

pytestmark = pytest.mark.parametrize("moment", get_args(Moment))

ENOUGH = 60
"""No operation waits at as many points as this."""


async def _nothing() -> None: ...


async def _sweep(
    url: str,
    moment: Moment,
    prepare: Prepare,
    check: Callable[[Client, int], Awaitable[None]],
    aftermath: Callable[[], Awaitable[None]] = _nothing,
) -> int:
    """Run what *prepare* returns once for each wait, and cancel it there; return their number."""
    for at in range(ENOUGH):
        async with interlock.asyncio.connect(url) as client:
            points = Points(at, moment)
            task = asyncio.create_task(_run(points, await prepare(client)))
            try:
                await asyncio.wait_for(asyncio.shield(task), 10)
            except asyncio.CancelledError:
                assert points.reached
            await aftermath()
            if not points.reached:
                return at
            await check(client, at)
    raise AssertionError("it never ends")


async def _run(points: Points, coroutine: Coroutine[Any, Any, object]) -> None:
    await points.run(coroutine)


async def test_an_acquire(redis_url: str, redis_client: redis.Redis, moment: Moment) -> None:
    """A cancelled acquire holds nothing, here or on the server, and the client goes on."""

    async def prepare(client: Client) -> Coroutine[Any, Any, object]:
        return client.lock("name").acquire()

    async def check(client: Client, at: int) -> None:
        await until(lambda: not own_keys(redis_client), 5, f"nothing is left after wait {at}")
        assert await client.lock("name").acquire(timeout=0)
        await client.lock("name").release()

    assert await _sweep(redis_url, moment, prepare, check) >= 2


async def test_an_acquire_on_a_warm_connection(
    redis_url: str, redis_client: redis.Redis, moment: Moment
) -> None:
    """A cancelled acquire that needed no new connection leaves nothing either."""

    async def prepare(client: Client) -> Coroutine[Any, Any, object]:
        await client.lock("name").locked()
        return client.lock("name").acquire()

    async def check(client: Client, at: int) -> None:
        await until(lambda: not own_keys(redis_client), 5, f"nothing is left after wait {at}")
        assert await client.lock("name").acquire(timeout=0)
        await client.lock("name").release()

    assert await _sweep(redis_url, moment, prepare, check) == 1


async def test_a_waiting_acquire(redis_url: str, redis_client: redis.Redis, moment: Moment) -> None:
    """A cancelled waiter leaves no lock or subscription, and passes its wake-up to the next one."""
    async with interlock.asyncio.connect(redis_url) as other:

        async def prepare(client: Client) -> Coroutine[Any, Any, object]:
            lock, neighbour = other.lock("name", owner="other"), client.lock("name")
            await lock.acquire()

            async def hand_over() -> None:
                await asyncio.sleep(0.03)  # until the other waits, or was cancelled
                await lock.release()

            async def acquire_beside_others() -> None:
                handing_over = asyncio.create_task(hand_over())
                beside = asyncio.create_task(visit(neighbour))
                tasks.extend((handing_over, beside))
                await neighbour.acquire()
                await neighbour.release()

            return acquire_beside_others()

        async def visit(lock: Lock) -> None:
            async with lock:
                pass

        tasks: list[asyncio.Task[None]] = []

        async def neighbours() -> None:
            async with asyncio.timeout(5):
                await asyncio.gather(*tasks)
            tasks.clear()

        async def check(client: Client, at: int) -> None:
            assert client.lock("name").hold is None
            await until(lambda: not own_keys(redis_client), 5, f"nothing is left after wait {at}")
            await until(lambda: not redis_client.pubsub_channels(), 5, "nobody listens")

        assert await _sweep(redis_url, moment, prepare, check, neighbours) >= 4


async def test_a_release(redis_url: str, redis_client: redis.Redis, moment: Moment) -> None:
    """A cancelled release still frees the lock."""

    async def prepare(client: Client) -> Coroutine[Any, Any, object]:
        lock = client.lock("name", owner="me")
        await lock.acquire()
        return lock.release()

    async def check(client: Client, at: int) -> None:
        await until(lambda: not own_keys(redis_client), 5, f"wait {at} frees it")
        assert client.lock("name", owner="me").hold is None

    assert await _sweep(redis_url, moment, prepare, check) == 1


async def test_a_reentry(redis_url: str, redis_client: redis.Redis, moment: Moment) -> None:
    """A cancelled re-entry leaves the hold as deep as it was, here and on the server."""

    async def prepare(client: Client) -> Coroutine[Any, Any, object]:
        lock = client.lock("name", owner="me")
        await lock.acquire()
        return lock.acquire()

    async def check(client: Client, at: int) -> None:
        lock = client.lock("name", owner="me")
        assert lock.hold is not None
        assert lock.hold.depth == 1
        assert await lock.hold_count() == 1
        await lock.release()
        assert not own_keys(redis_client)

    assert await _sweep(redis_url, moment, prepare, check) == 1


async def test_a_with_statement(redis_url: str, redis_client: redis.Redis, moment: Moment) -> None:
    """A with statement that is cancelled at any await leaves the lock free."""

    async def prepare(client: Client) -> Coroutine[Any, Any, object]:
        async def body() -> None:
            async with client.lock("name", timeout=1):
                await let_others_run()
                await asyncio.sleep(0.001)  # a wait that only the loop's clock ends

        return body()

    async def check(client: Client, at: int) -> None:
        await until(lambda: not own_keys(redis_client), 5, f"nothing is left after wait {at}")

    assert await _sweep(redis_url, moment, prepare, check) >= 5


async def test_a_with_statement_that_runs_into_its_timeout(
    redis_url: str, redis_client: redis.Redis, moment: Moment
) -> None:
    """A with statement cancelled before its AcquireTimeoutError changes nothing for the holder."""
    async with interlock.asyncio.connect(redis_url) as other:
        lock = other.lock("name")
        await lock.acquire()

        async def prepare(client: Client) -> Coroutine[Any, Any, object]:
            async def body() -> None:
                with pytest.raises(AcquireTimeoutError):
                    async with client.lock("name", timeout=0.01):
                        raise AssertionError("it is held by another")

            return body()

        async def check(client: Client, at: int) -> None:
            assert await lock.hold_count() == 1

        assert await _sweep(redis_url, moment, prepare, check) >= 3
        await lock.release()
        assert not own_keys(redis_client)
