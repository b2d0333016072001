"""What only asyncio has: tasks as owners, time-outs, blocked and ended loops, cancel on loss."""

from __future__ import annotations

import asyncio
import gc
import time
from collections.abc import AsyncIterator

import pytest
import redis
from tests.objects.awaited import until
from tests.support.cards import waited_channels
from tests.support.holding import acquires
from tests.support.patience import forever, wait_until
from tests.support.renewal import grown, renews_soon

import interlock.asyncio
from interlock import ClosedError, HoldLostError
from interlock.asyncio import Client


@pytest.fixture
async def client(redis_url: str) -> AsyncIterator[Client]:
    """Give a client of the running loop, which renews soon."""
    async with renews_soon(interlock.asyncio.connect(redis_url)) as client:
        yield client


@pytest.fixture
async def other(redis_url: str) -> AsyncIterator[Client]:
    async with interlock.asyncio.connect(redis_url) as client:
        yield client


async def test_a_blocked_loop_loses_nothing(client: Client, other: Client) -> None:
    """A hold is renewed even while the event loop is blocked."""
    async with client.lock("name") as hold:
        wait_until(grown(hold), 10, "it is renewed")  # the loop is blocked
        assert hold.valid
        assert not await other.lock("name").acquire(timeout=0)
        assert await client.lock("name").hold_count() == 1


@pytest.mark.parametrize("how", ["asyncio.timeout", "asyncio.wait_for"])
async def test_a_time_out_of_asyncio(
    client: Client, other: Client, redis_client: redis.Redis, how: str
) -> None:
    """asyncio.timeout and wait_for end a waiting acquire by TimeoutError, and nothing is left."""
    await other.lock("name").acquire()
    lock = client.lock("name")
    started = time.monotonic()
    with pytest.raises(TimeoutError):
        if how == "asyncio.timeout":
            async with asyncio.timeout(0.2):
                await lock.acquire()
        else:
            await asyncio.wait_for(acquires(lock), 0.2)
    assert 0.19 <= time.monotonic() - started < 5
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0
    assert lock.hold is None
    await until(lambda: not waited_channels(redis_client), 5, "nobody listens any more")
    await other.lock("name").release()
    assert await lock.acquire(timeout=0)
    await lock.release()


async def test_cancel_on_lost_through_an_inner_block(client: Client, other: Client) -> None:
    """The lost lock's block turns the cancellation into HoldLostError, not a block inside it."""
    with pytest.raises(HoldLostError, match="outer") as caught:
        async with client.lock("outer", cancel_on_lost=True), client.lock("inner"):
            await other.lock("outer").force_release()
            await forever()
    assert caught.value.name == "outer"
    assert await other.lock("inner").acquire(timeout=5)
    await other.lock("inner").release()
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


async def test_cancel_on_lost_beside_a_real_cancellation(client: Client, other: Client) -> None:
    """A cancellation by somebody else stays a cancellation."""

    async def hold() -> None:
        async with client.lock("name", cancel_on_lost=True):
            await forever()

    task = asyncio.create_task(hold())
    await until(other.lock("name").locked, 5, "it is held")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await other.lock("name").acquire(timeout=5)
    await other.lock("name").release()


async def test_on_lost_runs_in_the_loop(client: Client, other: Client) -> None:
    """Callbacks run in the event loop of the task that gave them."""
    told: list[object] = []
    await client.lock("name").acquire()
    hold = client.lock("name").hold
    assert hold is not None
    hold.on_lost(lambda: told.append(asyncio.get_running_loop()))
    await other.lock("name").force_release()
    await until(lambda: told, 5, "it was told")
    assert told == [asyncio.get_running_loop()]


async def test_outside_of_a_task(client: Client) -> None:
    """Without a task there is no owner, which is said."""
    done: asyncio.Future[object] = asyncio.get_running_loop().create_future()

    def call() -> None:
        try:
            done.set_result(client.lock("name").hold)
        except RuntimeError as error:
            done.set_result(error)

    asyncio.get_running_loop().call_soon(call)
    assert "task" in str(await done)


# asyncio warns of the connection that the first loop never closed.
@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_one_client_serves_one_loop(redis_url: str) -> None:
    """A client refuses a second loop; once its first loop is closed, it serves the next."""

    async def use(client: Client) -> None:
        async with client.lock("name"):
            pass

    client = interlock.asyncio.connect(redis_url)
    first = asyncio.new_event_loop()
    first.run_until_complete(use(client))
    second = asyncio.new_event_loop()
    with pytest.raises(ClosedError, match="another event loop"):
        second.run_until_complete(use(client))
    first.close()
    second.run_until_complete(use(client))
    second.run_until_complete(client.close())
    with pytest.raises(ClosedError):
        second.run_until_complete(use(client))
    second.close()
    del client
    gc.collect()
