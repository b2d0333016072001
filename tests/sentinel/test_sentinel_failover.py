"""A primary under Sentinel is lost: nobody is told but by the time it takes, and who waits gets the lock from the next one."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lock_like import Stage

    from interlock.testing.servers import SentinelServers

AFTER_PROMOTION = 3.0
"""Seconds within which a waiter holds the lock."""


async def test_a_killed_primary(stage: Stage, bed: SentinelServers) -> None:
    """A waiter has the lock within 3 s of the promotion; its holder's release is sat out, and nobody sees an error."""
    holder, waiter, client = stage.owner(), stage.owner(), stage.client()
    lock, theirs = client.lock("name"), stage.client().lock("name")
    old = bed.present_primary()
    assert await holder.do(lock.acquire)
    assert stage.redis.wait(2, 5000) == 2
    waiting = asyncio.create_task(waiter.do(theirs.acquire, timeout=30))
    await asyncio.sleep(0.3)
    old.kill()
    releasing = asyncio.create_task(holder.do(lock.release))
    new = await asyncio.to_thread(bed.wait_for_promotion, old)
    promoted_at = time.monotonic()
    await asyncio.gather(waiting, releasing)
    assert time.monotonic() - promoted_at < AFTER_PROMOTION
    assert waiting.result()
    assert new.execute("EXISTS", "name")
    await waiter.do(theirs.release)
