"""A lost primary under Sentinel: callers see a delay only; waiters get the lock from the next."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.awaited import until
from tests.sentinel.small import SERVICE, knows, sentinel_of
from tests.support.patience import let_others_run
from tests.support.servers import ReplicatedServers, reach_replicas

from interlock._core.model.names import condition_key
from interlock._core.model.tokens import EPOCH_BITS

if TYPE_CHECKING:
    from tests.objects.awaited import Stage
    from tests.support.servers import SentinelServers

AFTER_PROMOTION = 10.0
"""Seconds within which a waiter holds the lock: 3 on a quiet machine."""


async def test_a_killed_primary(stage: Stage, bed: SentinelServers) -> None:
    """A waiter has the lock soon after the promotion, and the others follow in turn.

    A release waits for the end of the outage. Nobody sees an error.
    """
    holder, client = stage.owner(), stage.client()
    others = [stage.client(), stage.client()]
    lock, inside, first_at = client.lock("name"), set[int](), 0.0
    old = bed.present_primary()
    assert await holder.do(lock.acquire)
    reach_replicas(stage.redis, 2)

    async def wait(number: int) -> None:
        nonlocal first_at
        owner, theirs = stage.owner(), others[number % 2].lock("name")
        assert await owner.do(theirs.acquire, timeout=30)
        first_at = first_at or time.monotonic()
        inside.add(number)
        assert inside == {number}
        await let_others_run(5)
        inside.discard(number)
        await owner.do(theirs.release)

    waiting = [asyncio.create_task(wait(number)) for number in range(4)]
    await stage.waits(4)
    old.kill()
    releasing = asyncio.create_task(holder.do(lock.release))
    new = await asyncio.to_thread(bed.wait_for_promotion, old)
    promoted_at = time.monotonic()
    await asyncio.gather(releasing, *waiting)
    assert first_at - promoted_at < AFTER_PROMOTION
    assert not new.execute("EXISTS", "name")
    # A server that calls itself a primary is not believed just because it was one.
    old.restart(empty=False)
    assert await holder.do(lock.acquire, timeout=10)
    assert new.execute("EXISTS", "name")
    await holder.do(lock.release)


async def test_every_kind_of_object(stage: Stage, bed: SentinelServers) -> None:
    """Holds and counts go on at the next primary: renewed, waited for and released there."""
    client, owner, other = stage.client(lease=15), stage.owner(), stage.owner()
    locks: list[Any] = [
        client.lock("plain"),
        client.fair_lock("fair"),
        client.fenced_lock("fenced"),
        client.spin_lock("spin"),
        client.read_write_lock("both").read,
        client.read_write_lock("write").write,
        client.group_lock("group", ["a", "b"]),
        client.multi_lock(client.lock("one"), client.lock("two")),
        client.election("election"),
    ]
    for lock in locks:
        assert await owner.do(lock.acquire)
    holds = [await owner.do(lambda lock=lock: lock.hold) for lock in locks]
    semaphore, latch = client.semaphore("semaphore"), client.count_down_latch("latch")
    leased = client.leased_semaphore("leased")
    await owner.do(semaphore.try_set_permits, 2)
    assert await owner.do(semaphore.acquire)
    await owner.do(leased.try_set_permits, 1)
    permit = await owner.do(leased.acquire)
    await owner.do(latch.try_set_count, 1)
    opening = asyncio.create_task(other.do(latch.wait, timeout=30))
    event, third = client.event("event"), stage.owner()
    setting = asyncio.create_task(third.do(event.wait, timeout=30))
    await stage.waits(2)
    barrier, fourth = client.barrier("barrier", 2), stage.owner()
    meeting = asyncio.create_task(fourth.do(barrier.wait, timeout=30))
    condition, fifth = client.condition("condition"), stage.owner()
    await fifth.do(condition.acquire)
    hearing = asyncio.create_task(fifth.do(condition.wait, timeout=60))
    await until(lambda: stage.redis.zcard("interlock_barrier:{barrier}") == 1, 20, "a party waits")
    waiting = condition_key("condition", "")
    await until(lambda: stage.redis.zcard(waiting) == 1, 20, "one waits for news")
    reach_replicas(stage.redis, 2)

    old = bed.present_primary()
    old.kill()
    await asyncio.to_thread(bed.wait_for_promotion, old)
    # The outage has taken more than two seconds of what was left of them.
    await until(
        lambda: all(hold.remaining > 13 for hold in holds),
        AFTER_PROMOTION,
        "all were renewed on the next primary, at once",
    )
    for lock in locks:
        await owner.do(lock.release)
    assert await owner.do(semaphore.available_permits) == 1
    await owner.do(semaphore.release)
    await owner.do(leased.release, permit)
    assert await owner.do(leased.available_permits) == 1
    await owner.do(latch.count_down)
    assert await opening
    await owner.do(event.set)
    assert await setting
    assert {await owner.do(barrier.wait, timeout=10), await meeting} == {0, 1}
    assert await owner.do(condition.acquire, timeout=10)
    await owner.do(condition.notify)
    await owner.do(condition.release)
    assert await hearing
    await fifth.do(condition.release)


async def test_releases_that_the_next_primary_has_missed(stage: Stage) -> None:
    """Releases are sent again to a replica that was promoted before them, so no lock stays held.

    Two plain REPLICAOF commands make it the primary. The client learns of it by its next call.
    """
    with ReplicatedServers() as servers, sentinel_of(servers.primary) as sentinel:
        knows(sentinel)
        old, new = servers.primary, servers.replicas[0]
        client = stage.client(f"redis+sentinel://127.0.0.1:{sentinel.port}/{SERVICE}")
        owner, names = stage.owner(), [f"name {number}" for number in range(19)]
        locks = [client.lock(name) for name in names]
        for lock in locks:
            assert await owner.do(lock.acquire)
        with old.client() as seen:
            reach_replicas(seen, 1)
        new.execute("REPLICAOF", "NO", "ONE")
        for lock in locks:
            await owner.do(lock.release)
        assert new.execute("EXISTS", *names) == len(names)
        old.execute("REPLICAOF", "127.0.0.1", new.port)
        sentinel.execute("SENTINEL", "REMOVE", SERVICE)
        sentinel.execute("SENTINEL", "MONITOR", SERVICE, "127.0.0.1", new.port, 1)
        another = client.lock("another")
        assert await owner.do(another.acquire, timeout=20)
        await owner.do(another.release)
        await until(lambda: not new.execute("EXISTS", *names), 10, "all of them are free")


@pytest.mark.promise("failover")
async def test_a_hold_that_no_replica_has_seen(stage: Stage, bed: SentinelServers) -> None:
    """A holder is told of its loss as soon as there is another primary.

    It does not wait for the next renewal. A token is never given twice.
    """
    client, owner, other = stage.client(lease=120), stage.owner(), stage.owner()
    lock = client.fenced_lock("name")
    old, told = bed.present_primary(), list[float]()
    for server in bed.servers:
        if server is not old:
            # For a moment the replicas follow nobody, so they hear nothing.
            server.execute("REPLICAOF", "127.0.0.1", 1)
    assert await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    await owner.do(hold.on_lost, lambda: told.append(time.monotonic()))
    old.kill()
    new = await asyncio.to_thread(bed.wait_for_promotion, old)
    promoted_at = time.monotonic()
    assert not new.execute("EXISTS", "name")
    await until(lambda: told, AFTER_PROMOTION, "the holder knows")
    assert told[0] - promoted_at < AFTER_PROMOTION
    # Of another client, which has never seen the first one's token.
    again = stage.client().fenced_lock("name")
    assert await other.do(again.acquire, timeout=15)
    token = (await other.do(lambda: again.hold)).token
    assert token > hold.token
    await other.do(again.release)
    # A single try, which a client sends before its first connection tells of the failover.
    first = stage.client().fenced_lock("another")
    assert await other.do(first.acquire, timeout=0)
    assert (await other.do(lambda: first.hold)).token >> EPOCH_BITS == token >> EPOCH_BITS > 0
    await other.do(first.release)


@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_sentinels_that_are_gone(stage: Stage, bed: SentinelServers) -> None:
    """Without any Sentinel, connected clients go on working.

    One Sentinel of three, the last in the list, is enough for a new client.
    """
    client, owner = stage.client(), stage.owner()
    lock = client.lock("name")
    assert await owner.do(lock.acquire)
    for sentinel in bed.sentinels:
        sentinel.kill()
    await owner.do(lock.release)
    assert await owner.do(lock.acquire, timeout=10)
    await owner.do(lock.release)
    bed.sentinels[2].restart(empty=False)
    bed.sentinels[0].restart(empty=False)
    bed.sentinels[0].pause()
    newcomer = stage.client().lock("name")
    started = time.monotonic()
    assert await owner.do(newcomer.acquire, timeout=20)
    assert time.monotonic() - started < 8
    await owner.do(newcomer.release)
