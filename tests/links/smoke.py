"""The one conversation that proves a link: take a lock in every way, and leave nothing behind."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.objects.awaited import renewed, until

if TYPE_CHECKING:
    import redis
    from tests.objects.awaited import Stage


async def smoke(stage: Stage, url: str, server: redis.Redis, name: str = "name") -> None:
    """Acquire, re-enter, wait, release, renew, extend, ask and force-release through *url*.

    *server* is a client that sees the effects.
    """
    client, other = stage.client(url, lease=4), stage.client(url)
    ours, theirs = client.lock(name), other.lock(name)
    holder, waiter = stage.owner(), stage.owner()

    assert await holder.do(ours.acquire)
    assert await holder.do(ours.acquire)
    assert list(server.hgetall(name).values()) == [b"2"]
    assert await holder.do(ours.hold_count) == 2
    assert await waiter.do(theirs.locked)
    assert not await waiter.do(theirs.acquire, timeout=0.3)
    hold = await holder.do(lambda: ours.hold)
    await renewed(hold)
    assert server.pttl(name) > 2000

    channel = f"redisson_lock__channel:{{{name}}}"
    waiting = asyncio.create_task(waiter.do(theirs.acquire, timeout=20))
    await until(lambda: server.pubsub_numsub(channel)[0][1] == 1, 10, "the waiter hears")
    await holder.do(ours.release)
    assert list(server.hgetall(name).values()) == [b"1"]
    await holder.do(ours.release)
    assert await waiting
    await waiter.do(theirs.extend, 60)
    assert server.pttl(name) > 50_000
    assert await holder.do(ours.locked)

    lost = await waiter.do(lambda: theirs.hold)
    assert await holder.do(ours.force_release)
    assert not server.exists(name)
    assert not await waiter.do(theirs.owned)
    await until(lost.lost.is_set, 10, "the loss is told")
