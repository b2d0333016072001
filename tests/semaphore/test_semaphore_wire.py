"""The wire: what Java writes, reads and hears, byte for byte, and how little of it there is."""

from __future__ import annotations

import asyncio
import re
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import until
from tests.semaphore.conversation import CHANNEL, commands
from tests.support.cards import own_keys

import interlock

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer

ALL = "interlock_semaphore_total:{name}"


async def test_the_plain_ones_conversation_is_redissons(plain: Stage, server: RedisServer) -> None:
    """Each call writes the number and announces it, as Redisson's RSemaphore does.

    The sum of all permits is written by what changes it, and by no acquire or release.
    """
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    await owner.do(semaphore.available_permits)

    async def conversation() -> None:
        await owner.do(semaphore.try_set_permits, 5)
        await owner.do(semaphore.try_set_permits, 7)
        await owner.do(semaphore.acquire, 2)
        await owner.do(semaphore.acquire, 4, blocking=False)
        await owner.do(semaphore.release)
        await owner.do(semaphore.release_if_exists, 3)
        await owner.do(semaphore.add_permits, -9)
        await owner.do(semaphore.add_permits, 9)
        await owner.do(semaphore.drain_permits)

    heard = await commands(server, plain.redis, conversation)
    # An epoch follows the sum.
    assert [re.sub(r" \d{9,16}$", "", line) for line in heard] == [
        "set name 5 nx",
        f"set {ALL} 5",
        f"publish {CHANNEL} 5",
        "set name 7 nx",
        "decrby name 2",
        "incrby name 1",
        f"publish {CHANNEL} 4",
        "incrby name 3",
        f"publish {CHANNEL} 7",
        "incrby name -9",
        f"set {ALL} -4",  # -2 is not announced: Java's listener fails by it
        "incrby name 9",
        f"set {ALL} 5",
        f"publish {CHANNEL} 7",
        "decrby name 7",
    ]


@pytest.mark.parametrize(
    ("name", "channel", "latch"),
    [
        ("a", "redisson_sc:{a}", b"redisson_unlock_latch:{a}:"),
        ("{a}b", "redisson_sc:{a}b", b"redisson_unlock_latch:{a}b:"),
    ],
)
async def test_where_it_is_heard(plain: Stage, name: str, channel: str, latch: bytes) -> None:
    """Channel and latch have the name as in Redisson; a latch has a TTL, the number has none."""
    owner, semaphore = plain.owner(), plain.lock(plain.client(), name)
    with plain.redis.pubsub() as heard:
        heard.subscribe(channel)
        await owner.do(semaphore.release, 2)
        messages: list[Any] = []
        await until(
            lambda: messages.append(heard.get_message()) or len([m for m in messages if m]) == 2,
            5,
            "the message came",
        )
    assert [each["data"] for each in messages if each] == [1, b"2"]
    keys = {key: plain.redis.pttl(key) for key in plain.redis.scan_iter()}
    assert keys.pop(name.encode()) == -1
    [(key, ttl)] = keys.items()
    assert key.startswith(latch)
    assert len(key) == len(latch) + 32
    assert 36_000 < ttl <= 42_000, "longer than any copy of the call can be under way"


async def test_latches_do_not_pile_up(plain: Stage) -> None:
    """However many calls one object makes, the latch of one of them is left, and it expires."""
    client = plain.client(command_timeout=0.6, outage_timeout=0.6)
    owner, semaphore = plain.owner(), plain.lock(client)
    await owner.do(semaphore.try_set_permits, 2)
    for _ in range(50):
        await owner.do(semaphore.acquire)
        await owner.do(semaphore.release)
        await owner.do(semaphore.add_permits, 1)
        await owner.do(semaphore.try_set_permits, 9)
        await owner.do(semaphore.acquire, 99, blocking=False)
        await owner.do(semaphore.acquire)
    assert len(own_keys(plain.redis)) <= 3
    await until(
        lambda: {*plain.redis.keys()} == {b"name", ALL.encode()}, 10, "the last latch has expired"
    )


async def test_uncontended_is_two_round_trips(proxy: FaultProxy, plain: Stage) -> None:
    """Acquire and release are one EVALSHA each, and a single try in vain is one."""
    owner, semaphore = plain.owner(), plain.lock(plain.client(proxy.url()))
    await owner.do(semaphore.try_set_permits, 1)
    proxy.clear_record()
    await owner.do(semaphore.acquire)
    await owner.do(semaphore.release)
    await owner.do(semaphore.acquire, timeout=5)
    assert not await owner.do(semaphore.acquire, timeout=0)
    assert [request.args[0] for request in proxy.record] == [b"EVALSHA"] * 4


async def test_a_ttl_stays(plain: Stage) -> None:
    """A number that Java gave a TTL keeps it, whatever is taken, given, added or drained."""
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    plain.redis.set("name", 3, ex=1000)
    await owner.do(semaphore.acquire)
    await owner.do(semaphore.release)
    await owner.do(semaphore.add_permits, 2)
    await owner.do(semaphore.drain_permits)
    assert 900 < plain.redis.ttl("name") <= 1000


@pytest.mark.parametrize("what", ["release", "set", "add"])
async def test_java_wakes_a_waiter(plain: Stage, what: str) -> None:
    """What Java writes and announces wakes a waiter of ours at once."""
    owner, semaphore = plain.owner(), plain.lock(plain.client(poll_cap=60))
    waiting = asyncio.create_task(owner.do(semaphore.acquire))
    await until(lambda: CHANNEL.encode() in plain.redis.pubsub_channels(), 5, "it waits")
    assert not waiting.done()
    plain.redis.set("name", 2) if what == "set" else plain.redis.incrby("name", 2)
    plain.redis.publish(CHANNEL, "2")
    assert await asyncio.wait_for(waiting, 20)
    assert plain.redis.get("name") == b"1"


async def test_full_memory_does_not_keep_permits(fresh_server: RedisServer, plain: Stage) -> None:
    """A server that takes nothing new because its memory is full still takes permits back."""
    owner, semaphore = plain.owner(), plain.lock(plain.client(fresh_server.url()))
    await owner.do(semaphore.try_set_permits, 1)
    await owner.do(semaphore.acquire)
    await owner.do(semaphore.release)
    fresh_server.execute("CONFIG", "SET", "maxmemory", 1)
    await owner.do(semaphore.release)
    fresh_server.execute("CONFIG", "SET", "maxmemory", 0)
    assert await owner.do(semaphore.available_permits) == 2


def test_every_version_of_the_server(any_server: RedisServer) -> None:
    """All calls of both semaphores and of the latch work on every supported server.

    They leave what they should.
    """
    with interlock.connect(any_server.url()) as client:
        plain, leased = client.semaphore("plain"), client.leased_semaphore("leased")
        latch = client.count_down_latch("latch")
        assert plain.try_set_permits(2)
        assert plain.acquire(2)
        plain.release()
        assert plain.release_if_exists()
        plain.add_permits(3)
        assert plain.drain_permits() == 5
        assert leased.try_set_permits(3)
        with leased.acquire(2) as permit:
            leased.update_lease(permit, 60)
            assert leased.try_acquire(2) is None
            leased.add_permits(1)
            leased.set_permits(5)
            assert (leased.available_permits(), leased.acquired_permits()) == (3, 2)
        assert latch.try_set_count(1)
        assert latch.wait(timeout=0) is False
        latch.count_down()
        assert latch.wait()
        assert latch.try_set_count(1)
        assert latch.delete()
        assert (any_server.execute("GET", "plain"), any_server.execute("GET", "leased")) == (
            b"0",
            b"5",
        )
        assert any_server.execute("EXISTS", "latch") == 0
