"""Nodes that die, hang, come and go, and unserved slots: a call waits for them within its time."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.cluster.seen import eyes, names_by_node
from tests.objects.awaited import KINDS, Face, Stage, until
from tests.support.servers import ClusterServers, RedisServer, main_binary

from interlock._links.topology import slot_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator, Iterator

AFTER_PROMOTION = 10.0
"""Seconds after which who waits has what is free, once the cluster has agreed on a new primary.

A quiet machine needs 3.
"""


@pytest.fixture(scope="module")
def harmed() -> Iterator[ClusterServers]:
    """Give a cluster that the tests of this file harm, one after another."""
    # Time enough for a machine that stalls; a failover takes as much longer.
    with ClusterServers(binary=main_binary(), node_timeout=2.5) as servers:
        yield servers


@pytest.fixture
async def hurt(face: Face, harmed: ClusterServers) -> AsyncIterator[Stage]:
    with eyes(harmed) as seen:
        async with Stage(face, KINDS[0], harmed.url(), seen) as set_up:
            yield set_up


async def test_nodes_come_and_go(hurt: Stage, harmed: ClusterServers) -> None:
    """A node that joins is used once it serves a slot; a node that has left is forgotten.

    Its connections are forgotten too.
    """
    client, owner = hurt.client(), hurt.owner()
    names = [name for those in names_by_node(harmed, 10).values() for name in those]

    async def use_all() -> None:
        for name in names:
            assert await owner.do(client.lock(name).acquire, timeout=10)
            await owner.do(client.lock(name).release)

    await use_all()
    with ExitStack() as stack:
        # It is to stay a primary, though it loses its last slot again.
        config = {"cluster-enabled": "yes", "cluster-allow-replica-migration": "no"}
        new = stack.enter_context(RedisServer(main_binary(), config=config))
        for node in harmed.nodes:
            new.execute("CLUSTER", "MEET", "127.0.0.1", node.port)
        harmed.nodes.append(new)
        stack.callback(lambda: new in harmed.nodes and harmed.nodes.remove(new))
        number = bytes(new.execute("CLUSTER", "MYID"))
        await until(
            lambda: all(number in node.execute("CLUSTER", "NODES") for node in harmed.nodes),
            20,
            "it is known",
        )
        slot = slot_of(names[0])
        former = harmed.owner(slot)
        with harmed.migrate_slot(slot, former, new):
            await use_all()
        await use_all()
        assert "evalsha" in str(new.execute("INFO", "commandstats"))
        with harmed.migrate_slot(slot, new, former):
            pass
        await use_all()

        def serves_nothing(node: RedisServer) -> bool:
            lines = bytes(node.execute("CLUSTER", "NODES")).splitlines()
            return all(line.endswith(b"connected") for line in lines if line.startswith(number))

        await until(lambda: all(map(serves_nothing, harmed.nodes)), 20, "all know, replicas too")
        harmed.nodes.remove(new)
        for node in harmed.nodes:
            node.execute("CLUSTER", "FORGET", number)
    await use_all()


async def test_a_primary_is_killed(hurt: Stage, harmed: ClusterServers) -> None:
    """After kill -9, a waiter has the lock within three seconds of the promotion, without error.

    A hold that the replicas had is still held.
    """
    client, other = hurt.client(lease=15), hurt.client(lease=15)
    (victim, (waited, held, *_)), *_ = sorted(
        names_by_node(harmed, 10).items(), key=lambda item: harmed.nodes.index(item[0])
    )
    holder, waiter = hurt.owner(), hurt.owner()
    assert await holder.do(client.lock(held).acquire)
    with victim.client() as seen:
        seen.hset(waited, "somebody:1", 1)
        seen.pexpire(waited, 1500)
        assert seen.wait(1, 20_000) == 1
    waiting = asyncio.create_task(waiter.do(other.lock(waited).acquire, timeout=60))
    acquired: list[float] = []
    waiting.add_done_callback(lambda _: acquired.append(time.monotonic()))
    await hurt.waits()
    victim.kill()
    working = asyncio.create_task(_work_on(hurt, client, held + " of another"))
    await asyncio.to_thread(harmed.wait_for_promotion, victim, slot_of(waited))
    promoted = time.monotonic()
    assert await waiting
    assert acquired[0] - promoted < AFTER_PROMOTION
    hold = await holder.do(lambda: client.lock(held).hold)
    assert hold.valid
    await holder.do(client.lock(held).release)
    await waiter.do(other.lock(waited).release)
    await working
    victim.start()

    def is_back() -> bool:
        role: Any = victim.execute("ROLE")
        return role[0] == b"slave" and role[3] == b"connected"  # a primary tells less

    await until(is_back, 30, "it follows the new one")


async def _work_on(stage: Stage, client: Any, name: str) -> None:
    """Acquire and release in every shard while a primary fails over; any error fails the test."""
    owner = stage.owner()
    for number in range(20):
        lock = client.lock(f"{name} {number}")
        assert await owner.do(lock.acquire, timeout=30)
        await owner.do(lock.release)


def _refusals(node: RedisServer) -> int:
    with node.client() as seen:
        return sum("CLUSTERDOWN" in line for line in seen.info("errorstats"))


# The last one: a replica of the node that has not served for a while never learns better.
async def test_a_slot_that_nobody_serves(hurt: Stage, harmed: ClusterServers) -> None:
    """CLUSTERDOWN is waited for, and the lock acquired when somebody serves its slot again."""
    client, owner = hurt.client(), hurt.owner()
    lock = client.lock("unserved")
    assert await owner.do(lock.acquire)
    await owner.do(lock.release)
    slot = slot_of("unserved")
    node = harmed.owner(slot)
    node.execute("CLUSTER", "DELSLOTS", slot)
    await until(lambda: b"cluster_state:fail" in node.execute("CLUSTER", "INFO"), 10, "it is down")
    acquiring = asyncio.create_task(owner.do(lock.acquire, timeout=30))
    await until(lambda: _refusals(node), 10, "it is refused")
    assert not acquiring.done()
    node.execute("CLUSTER", "ADDSLOTS", slot)
    assert await acquiring
    await owner.do(lock.release)
