"""After close nothing is left on the server, in the process, or of what was under way.

While a client runs, its memory does not grow.
"""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import until
from tests.support.cards import own_keys
from tests.support.proxy import FaultProxy, command

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage


def _take_turn(lock: interlock.Lock) -> None:
    with lock:
        pass


def _use_everything(url: str) -> None:
    with interlock.connect(url) as client, interlock.connect(url) as other:
        lock, theirs = client.lock("name"), other.lock("name")
        lock.acquire()
        # It releases: a thread that ends with a lock is told of it at some time.
        waiter = threading.Thread(target=_take_turn, args=(theirs,))
        waiter.start()
        assert not theirs.acquire(timeout=0.2)
        lock.release()
        waiter.join(10)
        client.lock("held at the end").acquire()
        assert client.lock("this too", lease=50).acquire()


async def _take_turn_in_task(lock: interlock.asyncio.Lock) -> None:
    async with lock:
        pass


async def _use_everything_in_tasks(url: str) -> None:
    async with interlock.asyncio.connect(url) as client, interlock.asyncio.connect(url) as other:
        lock, theirs = client.lock("name"), other.lock("name")
        await lock.acquire()
        waiter = asyncio.create_task(_take_turn_in_task(theirs))
        assert not await theirs.acquire(timeout=0.2)
        await lock.release()
        await asyncio.wait_for(waiter, 10)
        await client.lock("held at the end").acquire()
        assert await client.lock("this too", lease=50).acquire()


@pytest.mark.usefixtures("patient")
@pytest.mark.parametrize("face", ["sync", "asyncio"])
def test_nothing_is_left_after_close(
    redis_url: str, redis_client: redis.Redis, quiescent: None, face: str
) -> None:
    """After close no key, subscription, connection, thread, task or open file is left."""
    if face == "sync":
        _use_everything(redis_url)
    else:

        async def main() -> None:
            before = asyncio.all_tasks()
            await _use_everything_in_tasks(redis_url)
            assert asyncio.all_tasks() == before

        asyncio.run(main())
    assert not own_keys(redis_client)
    assert redis_client.pubsub_channels() == []


async def test_close_releases_although_the_server_has_closed_the_connections(
    proxy: FaultProxy, plain: Stage
) -> None:
    """A server closes connections that were idle for long. The client still releases at its end."""
    client, owner = plain.client(proxy.url(), renewed="soon"), plain.owner()
    await owner.do(client.lock("name").acquire)
    renewed = command("CLIENT", "SETNAME")
    await until(lambda: any(renewed(sent.args) for sent in proxy.record), 5, "it is renewed")
    await asyncio.to_thread(proxy.disconnect)
    await plain.close(client)
    assert plain.left_behind() == set()


CYCLES = 10_000


@pytest.mark.rest
def test_memory_stays_flat(redis_url: str) -> None:
    """10,000 cycles of acquire and release, on old and new names, leave no memory behind."""
    with interlock.connect(redis_url) as client:

        def cycle(numbers: range) -> None:
            for number in numbers:
                with client.lock(f"name {number}"):
                    pass

        cycle(range(WARM))
        before = _memory()
        cycle(range(WARM, WARM + CYCLES))
        assert _memory() - before < FLAT


@pytest.mark.rest
async def test_memory_stays_flat_in_tasks(redis_url: str) -> None:
    """Ten thousand cycles in as many tasks leave no memory behind."""
    async with interlock.asyncio.connect(redis_url) as client:

        async def visit(number: int) -> None:
            async with client.lock(f"name {number}"):
                pass

        async def cycle(numbers: range) -> None:
            for start in numbers[::100]:
                await asyncio.gather(*map(visit, range(start, start + 100)))

        await cycle(range(WARM))
        before = _memory()
        await cycle(range(WARM, WARM + CYCLES))
        assert _memory() - before < FLAT


WARM = 10_000
"""Cycles after which every bounded cache is full."""
FLAT = CYCLES // 4
"""Blocks of memory: a single object kept of each cycle would be four times as many."""


def _memory() -> int:
    """Return how many blocks of memory the interpreter has in use."""
    gc.collect()
    return sys.getallocatedblocks()
