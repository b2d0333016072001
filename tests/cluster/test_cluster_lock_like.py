"""Every kind of object does in a cluster what it does on one server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.cluster.seen import eyes
from tests.faces.waited import WAITED
from tests.lock.lock_like import KINDS, Stage, renewed, until

from interlock import AcquireTimeoutError, ReentryError

if TYPE_CHECKING:
    from tests.faces.waited import Waited
    from tests.lock.lock_like import Face
    from tests.support.servers import ClusterServers

NAMES = ["a", "{b}:1", "x{c}y"]


async def _converse(stage: Stage, name: str) -> None:
    """Acquire, re-enter, refuse, wait, be told, renew and release."""
    client, other = stage.client(renewed="soon"), stage.client(poll_cap=30)
    ours, theirs = stage.lock(client, name), stage.lock(other, name)
    holder, waiter = stage.owner(), stage.owner()
    assert await holder.do(ours.acquire)
    if stage.kind.reentrant:
        assert await holder.do(ours.acquire)
        await holder.do(ours.release)
    else:
        with pytest.raises(ReentryError):
            await holder.do(ours.acquire)
    hold = await holder.do(lambda: ours.hold)
    if stage.kind.token is None:
        assert hold.token is None
    else:  # above it is the epoch of the node
        assert hold.token % 2**32 == stage.kind.token
    assert await waiter.do(theirs.locked)
    assert not await waiter.do(theirs.acquire, timeout=0)
    waiting = asyncio.create_task(waiter.do(theirs.acquire, timeout=20))
    await renewed(hold)
    assert hold.valid
    assert not waiting.done()
    await holder.do(ours.release)
    assert await asyncio.wait_for(waiting, 10), "told, long before it would look by itself"
    await waiter.do(theirs.release)
    # A counter's key, as it is called with braces in the name.
    assert stage.left_behind(name) - {f"redisson_lock_token:{name}"} == set()


@pytest.mark.parametrize("name", NAMES[:1])
async def test_every_lock_works(stage: Stage, name: str) -> None:
    """A lock of every kind is taken, re-entered, renewed, waited for and handed over by message."""
    await _converse(stage, name)


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.name in ("fair", "fenced", "write")], indirect=True
)
@pytest.mark.parametrize("name", NAMES[1:])
@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_names_with_braces(stage: Stage, name: str) -> None:
    """Kinds with several keys keep them in the slot that the user's braces say."""
    await _converse(stage, name)


@pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.name in ("lock", "fair")], ids=lambda kind: kind.name
)
async def test_other_versions(face: Face, kind: Any, other_cluster: ClusterServers) -> None:
    """Locks work with plain channels on servers without sharded ones, and on the newest servers."""
    with eyes(other_cluster) as seen:
        stage = Stage(face, kind, other_cluster.url(), seen)
        await _converse(stage, "a")
        await stage.end()


async def test_readers_together(plain: Stage) -> None:
    """Many read, a writer waits for them and is told when the last one has gone."""
    client = plain.client(poll_cap=30)
    lock = client.read_write_lock("a")
    readers, writer = [plain.owner() for _ in range(3)], plain.owner()
    for reader in readers:
        assert await reader.do(lock.read.acquire, timeout=5)
    assert not await writer.do(lock.write.acquire, timeout=0)
    writing = asyncio.create_task(writer.do(lock.write.acquire, timeout=20))
    await plain.waits()
    for reader in readers:
        await reader.do(lock.read.release)
    assert await asyncio.wait_for(writing, 10)
    await writer.do(lock.write.release)
    assert plain.left_behind("a") == set()


@pytest.mark.parametrize("kind", WAITED, indirect=True, ids=lambda kind: kind.name)
async def test_objects_are_handed_over_by_message(stage: Stage, kind: Waited) -> None:
    """Who waits for an event, a latch or permits is told by a message, long before it would look.

    All else that they can do is the same in another database (`test_cluster_databases.py`).
    """
    it, other = (stage.lock(stage.client(poll_cap=30), "a") for _ in range(2))
    one, two = stage.owner(), stage.owner()
    await one.do(kind.begin(it))
    waiting = asyncio.create_task(two.do(kind.wait(other), timeout=20))
    await stage.waits()
    assert not waiting.done()
    await one.do(kind.go_on(it))
    assert await asyncio.wait_for(waiting, 10)


async def test_condition(plain: Stage) -> None:
    """A message wakes the waiter that is notified, which then holds the lock."""
    conditions = [plain.client(poll_cap=30).condition("a") for _ in range(2)]
    one, two = plain.owner(), plain.owner()
    await one.do(conditions[0].acquire)
    waiting = asyncio.create_task(one.do(conditions[0].wait, 20))
    await plain.waits()
    await two.do(conditions[1].acquire)
    await two.do(conditions[1].notify)
    await two.do(conditions[1].release)
    assert await asyncio.wait_for(waiting, 10)
    await one.do(conditions[0].release)


async def test_barrier(plain: Stage) -> None:
    """Parties of two clients pass by message when the last one comes."""
    barriers = [plain.client(poll_cap=30).barrier("a", 2) for _ in range(2)]
    waiting = asyncio.create_task(plain.owner().do(barriers[0].wait, 20))
    await plain.waits()
    assert await plain.owner().do(barriers[1].wait, 20) == 1
    assert await asyncio.wait_for(waiting, 10) == 0


async def test_election(plain: Stage) -> None:
    """A message tells the next candidate that nobody leads, and an observer hears of both terms."""
    client, one, two = plain.client(poll_cap=30), plain.owner(), plain.owner()
    first, second = client.election("a", candidate="1"), client.election("a", candidate="2")
    seen: list[Any] = []
    observation = await one.do(first.observe, lambda info: seen.append(info and info.candidate))
    await until(lambda: seen == [None], 10, "it looked")
    assert await one.do(first.acquire)
    await until(lambda: seen[-1] == "1", 10, "it is told")
    waiting = asyncio.create_task(two.do(second.acquire, timeout=20))
    await plain.waits(2)
    await one.do(first.release)
    assert await asyncio.wait_for(waiting, 10)
    await until(lambda: seen[-1] == "2", 10, "it is told")
    await one.do(observation.close)
    await two.do(second.release)


async def test_multi_lock_over_all_nodes(plain: Stage) -> None:
    """Forty locks on all primaries are taken as one, renewed, refused to another, and released."""
    client, other = plain.client(lease=4), plain.client()
    names = [f"name {number}" for number in range(40)]
    ours = client.multi_lock(*map(client.lock, names))
    theirs = other.multi_lock(*map(other.lock, reversed(names)), timeout=0.5)
    holder, waiter = plain.owner(), plain.owner()
    assert await holder.do(ours.acquire)
    await renewed(await holder.do(lambda: ours.hold))
    assert await holder.do(ours.owned)
    # All of its connections are there before a time that is short for forty.
    assert await waiter.do(theirs.locked)
    with pytest.raises(AcquireTimeoutError):
        await waiter.do(plain.face.enter, theirs)
    await holder.do(ours.release)
    assert await waiter.do(theirs.acquire, timeout=5)
    await waiter.do(theirs.release)
    await until(lambda: not plain.left_behind(), 5, "nothing is left")
