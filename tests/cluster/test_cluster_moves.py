"""Slots that move while locks are held and waited for: no caller notices, nothing counts twice."""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.cluster.seen import eyes, route
from tests.objects.awaited import KINDS, Stage, renewed, until
from tests.support.patience import let_others_run, wait_until

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    from tests.objects.awaited import Face
    from tests.support.servers import ClusterServers, RedisServer


TURNS = 200
"""That each name is taken for, at least."""


def _moved(node: RedisServer) -> int:
    """Return how often *node* has sent somebody elsewhere."""
    with node.client() as client:
        return int(client.info("errorstats").get("errorstat_MOVED", {"count": 0})["count"])


async def test_a_slot_that_has_moved(plain: Stage, cluster: ClusterServers) -> None:
    """The first command after a move is sent on, and all others go straight to the new owner."""
    client, owner = plain.client(), plain.owner()
    lock = client.lock("moved")
    assert await owner.do(lock.acquire)
    slot, source, target = route(cluster, "moved")
    with cluster.migrate_slot(slot, source, target):
        pass
    before = _moved(source)
    await owner.do(lock.release)
    for _ in range(20):
        assert await owner.do(lock.acquire)
        await owner.do(lock.release)
    assert _moved(source) - before == 1
    assert plain.left_behind() == set()


async def test_a_slot_that_is_moving(plain: Stage, cluster: ClusterServers) -> None:
    """Refusal, re-entry, renewal, release and acquire work on either side of a half-moved slot."""
    client, other = plain.client(lease=4), plain.client()
    ours, theirs = client.lock("moving"), other.lock("moving")
    holder, waiter = plain.owner(), plain.owner()
    assert await holder.do(ours.acquire)
    assert await waiter.do(theirs.locked)
    slot, source, target = route(cluster, "moving")
    with cluster.migrate_slot(slot, source, target) as move:
        assert not await waiter.do(theirs.acquire, timeout=0)
        assert move(10) == 1
        # Its key is at the target now, which serves it only to who asks.
        assert not await waiter.do(theirs.acquire, timeout=0)
        assert await holder.do(ours.acquire)
        await renewed(await holder.do(lambda: ours.hold))
        assert await holder.do(ours.owned)
        assert await holder.do(ours.hold_count) == 2
        await holder.do(ours.release)
        await holder.do(ours.release)
        assert await waiter.do(theirs.acquire, timeout=5)
    assert await waiter.do(theirs.owned)
    await waiter.do(theirs.release)
    assert plain.left_behind() == set()


def test_a_client_that_closes_waits_for_a_slot_that_moves(cluster: ClusterServers) -> None:
    """A lock in a slot that is partly moved is released as soon as the slot has moved."""
    name = "closed late"
    client = interlock.connect(cluster.url())
    client.fair_lock(name).acquire()
    slot, source, target = route(cluster, name)
    with ThreadPoolExecutor(1) as pool:
        with cluster.migrate_slot(slot, source, target):
            before = _refusals(cluster)
            closing = pool.submit(client.close)
            wait_until(lambda: _refusals(cluster) > before, 10, "it is refused")
        closing.result(30)
    with interlock.connect(cluster.url()) as other:
        assert not other.fair_lock(name).locked()


def _refusals(cluster: ClusterServers) -> int:
    """Return how often a server answered TRYAGAIN, or sent a client to another one."""
    count = 0
    for node in cluster.nodes[:3]:
        with node.client() as seen:
            errors = seen.info("errorstats")
        count += sum(
            errors.get(f"errorstat_{code}", {}).get("count", 0)
            for code in ("TRYAGAIN", "ASK", "MOVED")
        )
    return count


@pytest.mark.parametrize("kind", ["fair_lock", "fenced_lock"])
async def test_several_keys_while_a_slot_is_moving(
    plain: Stage, cluster: ClusterServers, kind: str
) -> None:
    """A server answers TRYAGAIN if some of several keys are missing; the call waits and retries."""
    owner, other = plain.owner(), plain.owner()
    lock = getattr(plain.client(), kind)("several")
    slot, source, target = route(cluster, "several")
    with cluster.migrate_slot(slot, source, target):
        before = _refusals(cluster)
        acquiring = asyncio.create_task(owner.do(lock.acquire, timeout=30))
        await until(lambda: _refusals(cluster) > before, 10, "it is refused")
        assert not acquiring.done()
    assert await acquiring
    with cluster.migrate_slot(slot, target, source):
        before = _refusals(cluster)
        releasing = asyncio.create_task(owner.do(lock.release))
        await until(lambda: _refusals(cluster) > before or releasing.done(), 10, "it is refused")
    await releasing
    assert await other.do(lock.acquire, timeout=5)
    await other.do(lock.release)


@pytest.mark.parametrize("pubsub", ["auto", "plain"])
async def test_waiters_move_with_their_slot(
    plain: Stage, cluster: ClusterServers, pubsub: str
) -> None:
    """A waiter in a moving slot hears of a release at the new node, long before its next poll."""
    name = f"waited {pubsub}"
    client, other = plain.client(pubsub=pubsub), plain.client(pubsub=pubsub)
    ours, theirs = client.lock(name, lease=60), other.lock(name)
    holder, waiter = plain.owner(), plain.owner()
    assert await holder.do(ours.acquire)
    waiting = asyncio.create_task(waiter.do(theirs.acquire, timeout=50))
    slot, source, target = route(cluster, name)
    channel = f"redisson_lock__channel:{{{name}}}"

    def listeners(node: RedisServer) -> int:
        reply: Any = node.execute(
            "PUBSUB", "SHARDNUMSUB" if pubsub == "auto" else "NUMSUB", channel
        )
        return int(reply[1])

    await until(
        lambda: sum(map(listeners, cluster.nodes[:3])) > 0 or pubsub == "plain",
        5,
        "it is subscribed",
    )
    with cluster.migrate_slot(slot, source, target):
        pass
    if pubsub == "auto":
        await until(lambda: listeners(target) == 1, 5, "the subscription has moved")
        assert listeners(source) == 0
    assert not waiting.done()
    await holder.do(ours.release)
    assert await asyncio.wait_for(waiting, 10)
    await waiter.do(theirs.release)


def test_locks_in_slots_that_never_stop_moving(cluster: ClusterServers) -> None:
    """Threads and tasks of several clients take turns all the while, without any error."""
    names, inside, done = ("name 0", "name 1"), Counter[str](), Counter[str]()

    def enter(name: str) -> None:
        inside[name] += 1
        assert inside[name] == 1

    def leave(name: str) -> None:
        inside[name] -= 1
        done[name] += 1

    def threads_work(name: str) -> None:
        with interlock.connect(cluster.url()) as client:
            while done[name] < TURNS:
                with client.lock(name, timeout=60):
                    enter(name)
                    leave(name)

    async def tasks_work(name: str) -> None:
        async with interlock.asyncio.connect(cluster.url()) as client:
            while done[name] < TURNS:
                async with client.fair_lock(name, timeout=60):
                    enter(name)
                    await let_others_run()
                    leave(name)

    with ThreadPoolExecutor(6) as pool:
        working = [pool.submit(threads_work, name) for name in names * 2]
        working += [pool.submit(asyncio.run, tasks_work(name)) for name in names]
        while not all(each.done() for each in working):
            for name in names:
                slot, source, target = route(cluster, name)
                with cluster.migrate_slot(slot, source, target) as move:
                    time.sleep(0.01)  # a slot is between two servers in real time
                    _ = move(1)
                    time.sleep(0.01)  # and so with one key moved
        for each in working:
            each.result()


@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_other_versions_move_too(face: Face, other_cluster: ClusterServers) -> None:
    """Redirections of the oldest and the newest servers are understood."""
    with eyes(other_cluster) as seen:
        stage = Stage(face, KINDS[0], other_cluster.url(), seen)
        await test_a_slot_that_is_moving(stage, other_cluster)
        await stage.end()
