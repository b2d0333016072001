"""Blocks by `trying` on a plain semaphore, and by a lock of each face."""

from __future__ import annotations

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    import redis


def test_permits_of_a_plain_semaphore(redis_url: str, redis_client: redis.Redis) -> None:
    """A block gives back the permits that it took, once, also if they were given back inside."""
    with interlock.connect(redis_url) as client:
        semaphore = client.semaphore("name")
        semaphore.try_set_permits(2)
        with semaphore.trying(2) as permits:
            assert (bool(permits), permits.n) == (True, 2)
            with semaphore.trying() as none:
                assert not none
            assert semaphore.available_permits() == 0
            permits.release()
            assert not permits
        assert semaphore.available_permits() == 2
    assert redis_client.get("name") == b"2"


def test_threads_share_a_block(redis_url: str, redis_client: redis.Redis) -> None:
    """A thread that got nothing does not release what another thread has meanwhile."""
    inside, left = threading.Event(), threading.Event()
    with (
        interlock.connect(redis_url) as client,
        interlock.connect(redis_url) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        trying = client.lock("name").trying()

        def enter() -> tuple[bool, bool]:
            with trying as hold:
                inside.set()
                assert left.wait(20)
                return bool(hold), hold.valid

        assert other.lock("name").acquire()
        with trying as nothing:
            other.lock("name").release()
            entering = pool.submit(enter)
            assert inside.wait(20)
            assert not nothing
        left.set()
        assert entering.result(20) == (True, True)
    assert not redis_client.exists("name")


async def test_tasks_share_a_block(redis_url: str, redis_client: redis.Redis) -> None:
    """So it is for tasks; a block that another task leaves is left, too."""
    inside, left = asyncio.Event(), asyncio.Event()
    async with (
        interlock.asyncio.connect(redis_url) as client,
        interlock.asyncio.connect(redis_url) as other,
    ):
        trying = client.lock("name").trying()

        async def enter() -> tuple[bool, bool]:
            async with trying as hold:
                inside.set()
                await left.wait()
                return bool(hold), hold.valid

        assert await other.lock("name").acquire()
        async with trying as nothing:
            await other.lock("name").release()
            entering = asyncio.create_task(enter())
            await inside.wait()
            assert not nothing
        left.set()
        assert await entering == (True, True)
        permits = client.semaphore("permits")
        assert await permits.try_set_permits(1)
        block = permits.trying()
        assert await asyncio.create_task(block.__aenter__())
        await block.__aexit__(None, None, None)
        assert await permits.available_permits() == 1
    assert not redis_client.exists("name")


async def test_one_statement_of_two_tries(redis_url: str) -> None:
    """Each try of a statement has its own answer."""
    async with (
        interlock.asyncio.connect(redis_url) as client,
        client.lock("name").trying() as hold,
        client.semaphore("none").trying() as none,
    ):
        assert hold
        assert not none
