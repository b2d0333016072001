"""The wire: the keys before and after every call, the conversation, and its small size."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from tests.fair.places import CHANNEL, LOCK, QUEUE, TIMEOUTS, Places
from tests.lock.lock_like import sent_in, until

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer


async def test_the_keys_before_and_after_every_call(fair: Stage) -> None:
    """Hash, list, zset and channels are Redisson's, byte for byte, and nothing else is stored."""
    a, b, one, two = fair.owner(), fair.owner(), fair.client(), fair.client()
    mine, theirs, wire = one.fair_lock(LOCK), two.fair_lock(LOCK), Places(fair.redis)
    await a.do(mine.acquire)
    first = (await a.do(lambda: mine.hold)).holder
    assert first.startswith(f"{one.client_id}:")
    assert wire.redis.keys() == [LOCK.encode()]
    assert wire.redis.hgetall(LOCK) == {first.encode(): b"1"}
    assert 29_000 < wire.redis.pttl(LOCK) <= 30_000
    await a.do(mine.acquire)
    assert wire.redis.hgetall(LOCK) == {first.encode(): b"2"}
    assert not await b.do(theirs.acquire, timeout=0)
    assert wire.redis.keys() == [LOCK.encode()]

    waiting = asyncio.create_task(b.do(theirs.acquire))
    await until(wire.redis.pubsub_channels, 5, "b listens")
    [second] = wire.waiting
    assert second.startswith(f"{two.client_id}:")
    assert sorted(wire.redis.keys()) == sorted(key.encode() for key in (LOCK, QUEUE, TIMEOUTS))
    assert wire.redis.pubsub_channels() == [f"{CHANNEL}:{second}".encode()]
    assert wire.redis.lrange(QUEUE, 0, -1) == [second.encode()]
    assert [member for member, _ in wire.redis.zrange(TIMEOUTS, 0, -1, withscores=True)] == [
        second.encode()
    ]
    assert 3 < wire.left[second] <= 5
    assert [wire.redis.ttl(key) for key in (QUEUE, TIMEOUTS)] == [-1, -1]
    with wire.told() as messages:
        await a.do(mine.release)
        assert wire.redis.hgetall(LOCK) == {first.encode(): b"1"}
        assert wire.waiting == [second]
        await a.do(mine.release)
        assert await asyncio.wait_for(waiting, 20)
        assert wire.redis.keys() == [LOCK.encode()]
        assert wire.redis.hgetall(LOCK) == {second.encode(): b"1"}
        await b.do(theirs.release)
    assert messages == [(second, "0")]
    assert wire.redis.keys() == []
    await until(lambda: not wire.redis.pubsub_channels(), 5, "nobody listens")


async def test_the_name_mapper_is_for_all_keys(fair: Stage) -> None:
    """Lock, list, zset and channel carry the mapped name."""
    owner, client = fair.owner(), fair.client(name_mapper=lambda name: f"app:{name}")
    await owner.do(fair.client().fair_lock("app:x").acquire)
    waiting = asyncio.create_task(fair.owner().do(client.fair_lock("x").acquire, timeout=3))
    await until(fair.redis.pubsub_channels, 5, "it listens")
    keys = {b"app:x", b"redisson_lock_queue:{app:x}", b"redisson_lock_timeout:{app:x}"}
    assert set(fair.redis.keys()) == keys
    [channel] = fair.redis.pubsub_channels()
    assert channel.startswith(b"redisson_lock__channel:{app:x}:" + client.client_id.encode())
    assert not await waiting


async def test_an_idle_waiter_asks_seldom(proxy: FaultProxy, fair: Stage) -> None:
    """A waiter sends less than one command a second, also behind a silent first waiter.

    Nothing wakes it more often.
    """
    owner, other, client = fair.owner(), fair.owner(), fair.client(proxy.url())
    fair.redis.rpush(QUEUE, "dead:1")
    Places(fair.redis).set_left(**{"dead:1": 100})
    lock = client.fair_lock(LOCK)
    waiting = asyncio.create_task(owner.do(lock.acquire, timeout=7))
    await fair.waits()
    await sent_in(proxy, 4)
    assert proxy.commands["EVALSHA"] <= 4
    assert not await other.do(lock.locked)
    assert not await waiting
    assert Places(fair.redis).waiting == ["dead:1"]


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


async def test_a_waiter_lives_without_messages(proxy: FaultProxy, fair: Stage) -> None:
    """With every message lost, a waiter has the lock soon after its release.

    It asks again within a third of the wait.
    """
    proxy.drop_messages = True
    a, b = fair.owner(), fair.owner()
    mine, theirs = fair.client().fair_lock(LOCK), fair.client(proxy.url()).fair_lock(LOCK)
    await a.do(mine.acquire)
    waiting = asyncio.create_task(b.do(theirs.acquire))
    await until(lambda: Places(fair.redis).waiting, 5, "b waits")
    await fair.waits()
    await a.do(mine.release)
    assert await asyncio.wait_for(waiting, 5 / 3 + 2)
    assert proxy.dropped_messages == 1
