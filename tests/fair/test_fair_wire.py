"""The wire: the keys before and after every call, the conversation, and its small size."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.fair.places import LOCK, QUEUE
from tests.lock.lock_like import until
from tests.support.cards import own_keys, waited_channels

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer


async def test_the_prefix_is_for_all_keys(fair: Stage) -> None:
    """Lock, list, zset and channel carry the prefix."""
    owner, client = fair.owner(), fair.client(prefix="app:")
    await owner.do(fair.client().fair_lock("app:x").acquire)
    waiting = asyncio.create_task(fair.owner().do(client.fair_lock("x").acquire, timeout=3))
    await until(fair.redis.pubsub_channels, 5, "it listens")
    keys = {"app:x", "redisson_lock_queue:{app:x}", "redisson_lock_timeout:{app:x}"}
    assert own_keys(fair.redis) == keys
    [channel] = waited_channels(fair.redis)
    assert channel.startswith("redisson_lock__channel:{app:x}:" + client.client_id)
    assert not await waiting


async def test_no_date_of_the_clients_is_sent(
    proxy: FaultProxy, fair: Stage, server: RedisServer
) -> None:
    """No argument of any command is a point in time."""
    owner, other, client = fair.owner(), fair.owner(), fair.client(proxy.url())
    lock = client.fair_lock(LOCK)
    await owner.do(lock.acquire)
    assert not await other.do(lock.acquire, timeout=0.3)
    await owner.do(lock.release)
    sent = [word for request in proxy.record for word in request.args]
    assert any(word == QUEUE.encode() for word in sent)
    assert max(int(word) for word in sent if word.isdigit()) < 1_000_000
