"""Neighbours wait for a lock in the client that releases it.

That saves commands, and starves nobody else.
"""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import until

from interlock._core.scripts.fenced_lock import fenced_lock_release
from interlock._core.scripts.lock import lock_release

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage

    from interlock._core.model.effects import Eval

CHANNEL = "redisson_lock__channel:{name}"


async def test_a_neighbour_costs_one_round_trip(plain: Stage) -> None:
    """A release makes the next waiter of its client the holder, by one script and no message."""
    client = plain.client(card=False)
    a, b = plain.owner(), plain.owner()
    lock = client.lock("name", lease=20)
    await a.do(lock.acquire)
    waiting = asyncio.create_task(b.do(lock.acquire, lease=80))
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
    assert 40_000 < plain.redis.pttl("name") <= 80_000
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


async def test_pattern_subscribers_are_not_counted(plain: Stage) -> None:
    """A release gives the lock to the next client beside a tool that uses PSUBSCRIBE."""
    redis, channel = plain.redis, "redisson_lock__channel:{name}"
    channels = (channel, "interlock_waiting:{name}", "interlock_wake:{name}:it")
    call = lock_release("name", "other:1", 0, "PUBLISH", channel)

    def released() -> set[bytes]:
        redis.hset("name", "other:1", 1)
        # After one turn it is the others' turn. Of the future: nobody has waited for two seconds.
        place = time.time_ns() // 1_000_000 + 10_000
        redis.zadd("interlock_queue:{name}", {"it": place, ":turns": 1})
        assert redis.eval(call.script.text, len(call.keys), *call.keys, *call.args) == 3
        holders = set(redis.hkeys("name"))
        redis.delete("name", "interlock_queue:{name}")
        return holders

    with redis.pubsub() as waiter, redis.pubsub() as tool, redis.pubsub() as java:
        tool.psubscribe("*")
        await until(lambda: redis.pubsub_numpat() == 1, 5, "the tool listens")
        waiter.subscribe(*channels)
        await until(lambda: redis.pubsub_numsub(channel)[0][1] == 1, 5, "one listens")
        assert released() == {b"it:0"}
        java.subscribe(channel)
        await until(lambda: redis.pubsub_numsub(channel)[0][1] == 2, 5, "both listen")
        assert released() == set(), "it is left to those who are not in the queue"


@pytest.mark.parametrize(
    "call",
    [
        lock_release("name", "other:1", 0, "PUBLISH", CHANNEL),
        fenced_lock_release("name", "token", "other:1", 0, 0, 1, "PUBLISH", CHANNEL),
    ],
    ids=["lock", "fenced lock"],
)
async def test_every_second_release_is_left_to_those_who_only_listen(
    plain: Stage, call: Eval[int]
) -> None:
    """In between a client in the queue gets the lock, also if the queue is empty for a moment."""
    redis = plain.redis
    with redis.pubsub() as waiter, redis.pubsub() as java:
        waiter.subscribe(CHANNEL, "interlock_waiting:{name}", "interlock_wake:{name}:it")
        java.subscribe(CHANNEL)
        await until(lambda: redis.pubsub_numsub(CHANNEL)[0][1] == 2, 5, "both listen")
        for left in (False, True) * 3:
            redis.zadd("interlock_queue:{name}", {"it": 1})
            redis.delete("name")
            redis.hset("name", "other:1", 1)
            with redis.pipeline() as pipe:  # one transaction: a claim lasts 250 ms
                pipe.eval(call.script.text, len(call.keys), *call.keys, *call.args)
                pipe.hkeys("name")
                assert pipe.execute() == [3, [] if left else [b"it:0"]]


async def test_a_queue_without_clients_is_removed(plain: Stage) -> None:
    """What it notes does not count: the lock is free for all, and the next release finds none."""
    redis = plain.redis
    redis.zadd("interlock_queue:{name}", {":turns": 3, ":left": 1e15})
    redis.hset("name", "other:1", 1)
    call = lock_release("name", "other:1", 0, "PUBLISH", CHANNEL)
    assert redis.eval(call.script.text, len(call.keys), *call.keys, *call.args) == 1
    assert not redis.exists("name", "interlock_queue:{name}")
