"""Whatever happens to the subscriber connection, waiters go on, and nobody waits for ever."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

from tests.objects.awaited import until
from tests.support.faults import blackhole, command

from interlock._drivers.background import subscriber

if TYPE_CHECKING:
    import pytest
    from tests.objects.awaited import Owner, Stage
    from tests.support.proxy import FaultProxy

CHANNEL = "redisson_lock__channel:{name}"


async def _waiting(
    stage: Stage, proxy: FaultProxy, **options: Any
) -> tuple[asyncio.Task[bool], Any, Owner]:
    """Start a waiter for a lock that an outsider holds; return its task, lock and owner.

    The waiter asks next when it gets a message, or at the poll cap.
    """
    stage.redis.hset("name", "somebody:1", 1)
    lock, owner = stage.client(**options).lock("name"), stage.owner()
    task = asyncio.create_task(owner.do(lock.acquire, timeout=20))
    await until(lambda: stage.redis.pubsub_numsub(CHANNEL)[0][1] == 1, 10, "it is subscribed")
    await until(lambda: proxy.commands["EVALSHA"] >= 2, 10, "it looked once more")
    # Before the subscription is confirmed it looks ten times a second, and then once more.
    while True:
        looks = proxy.commands["EVALSHA"]
        await asyncio.sleep(0.3)  # three looks would be due
        if proxy.commands["EVALSHA"] == looks:
            return task, lock, owner


async def _granted(stage: Stage, task: asyncio.Task[bool], lock: Any, owner: Owner) -> None:
    assert await asyncio.wait_for(task, 15)
    await owner.do(lock.release)
    assert not stage.redis.exists("name")


async def test_a_half_open_subscriber_is_found(
    stage: Stage, proxy: FaultProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A half-open subscriber connection is found by PING and replaced; waiters look again."""
    monkeypatch.setattr(subscriber, "SILENCE", 1.0)
    task, lock, owner = await _waiting(stage, proxy)
    subscriptions = proxy.commands["SUBSCRIBE"]
    proxy.on_request(command("PING", nth=1), blackhole)
    await until(lambda: proxy.fired, 10, "it pings")
    await until(lambda: proxy.commands["SUBSCRIBE"] > subscriptions, 10, "it connects anew")
    stage.redis.delete("name")
    stage.redis.publish(CHANNEL, "0")
    await _granted(stage, task, lock, owner)
