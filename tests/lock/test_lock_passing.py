"""Neighbours wait for a lock in the client that releases it.

That saves commands, and starves nobody else.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.lock.lock_like import until

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage


async def test_a_neighbour_costs_one_round_trip(plain: Stage) -> None:
    """A release makes the next waiter of its client the holder, by one script and no message."""
    client = plain.client(card=False)
    a, b = plain.owner(), plain.owner()
    lock = client.lock("name", lease=20)
    await a.do(lock.acquire)
    waiting = asyncio.create_task(b.do(client.lock("name").acquire))
    await until(
        lambda: plain.redis.pubsub_numsub("redisson_lock__channel:{name}")[0][1], 5, "b waits"
    )
    await plain.waits()
    plain.redis.config_resetstat()
    await a.do(lock.release)
    assert await asyncio.wait_for(waiting, 20)
    commands = plain.redis.info("commandstats")
    assert commands["cmdstat_evalsha"]["calls"] == 1
    assert "cmdstat_publish" not in commands
    holder = (await b.do(lambda: lock.hold)).holder
    assert plain.redis.hgetall("name") == {holder.encode(): b"1"}
    await b.do(lock.release)
    assert not plain.redis.exists("name")


async def test_neighbours_do_not_starve_others(plain: Stage) -> None:
    """A waiter elsewhere gets the lock again and again, however busy the neighbours here are."""
    here, there = plain.client(), plain.client()
    ended = False
    taken = 0

    async def work() -> None:
        nonlocal taken
        lock, owner = here.lock("name"), plain.owner()
        while not ended:
            await owner.do(lock.acquire)
            taken += 1
            await owner.do(lock.release)

    workers = [asyncio.create_task(work()) for _ in range(3)]
    other, lock = plain.owner(), there.lock("name")
    try:
        for _ in range(10):
            before = taken
            await until(lambda: taken >= before + 10, 20, "the neighbours are busy")  # noqa: B023
            assert await other.do(lock.acquire, timeout=5)
            await other.do(lock.release)
    finally:
        ended = True
        await asyncio.wait_for(asyncio.gather(*workers), 20)
