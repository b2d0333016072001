"""Every kind of object does in a cluster what it does on one server."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.faces.waited import WAITED
from tests.lock.lock_like import Stage, renewed, until

from interlock import AcquireTimeoutError

if TYPE_CHECKING:
    from tests.faces.waited import Waited

NAMES = ["a", "{b}:1", "x{c}y"]


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
