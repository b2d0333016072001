"""The server's side of a fenced lock: the plain lock's hash and messages, and a counter."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import until

from interlock import WrongTypeError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage

JAVA = "2f5ca6ef-60f2-4fd7-9a8c-5ad1e9f8a0ff:38"


async def test_java_and_we_draw_from_one_counter(stage: Stage) -> None:
    """A lock that Java holds is refused until Java's message comes; our token is the one after."""
    client, owner = stage.client(), stage.owner()
    lock = stage.lock(client, "orders")
    stage.redis.set("redisson_lock_token:{orders}", 41)
    stage.redis.hset("orders", JAVA, 1)
    stage.redis.pexpire("orders", 30_000)
    assert not await owner.do(lock.acquire, timeout=0)
    assert stage.redis.get("redisson_lock_token:{orders}") == b"41", "a refusal draws nothing"
    waiting = asyncio.create_task(owner.do(lock.acquire))
    channel = b"redisson_lock__channel:{orders}"
    await until(lambda: channel in stage.redis.pubsub_channels(), 5, "it subscribed")
    stage.redis.delete("orders")
    stage.redis.publish(channel, "0")
    assert await asyncio.wait_for(waiting, 20)
    assert (await owner.do(lambda: lock.hold)).token == 42
    assert stage.redis.get("redisson_lock_token:{orders}") == b"42"


async def test_a_plain_lock_of_the_same_name_excludes_and_draws_nothing(stage: Stage) -> None:
    """Plain and fenced lock of one name exclude each other; only fenced holds move the counter."""
    one, two = stage.client(), stage.client()
    a, b = stage.owner(), stage.owner()
    plain, fenced = one.lock("orders"), stage.lock(two, "orders")
    await a.do(plain.acquire)
    assert not await b.do(fenced.acquire, timeout=0)
    await a.do(plain.release)
    await b.do(fenced.acquire)
    assert not await a.do(plain.acquire, timeout=0)
    assert stage.redis.get("redisson_lock_token:{orders}") == b"1"
    await b.do(fenced.release)


async def test_a_fenced_re_entry_into_a_plain_hold_has_no_token(stage: Stage) -> None:
    """A hold that began without a token gets none: the counter's value is an older hold's."""
    client, owner = stage.client(), stage.owner()
    await owner.do(stage.lock(client).acquire)
    await owner.do(stage.lock(client).release)
    plain, fenced = client.lock("name"), stage.lock(client)
    await owner.do(plain.acquire)
    await owner.do(fenced.acquire)
    hold = await owner.do(lambda: fenced.hold)
    assert (hold.depth, hold.token) == (2, None)
    await owner.do(fenced.release)
    await owner.do(plain.release)
    assert stage.left_behind() == set()


async def test_a_counter_that_is_something_else_is_not_touched(stage: Stage) -> None:
    """When the counter's key holds no string, acquiring is an error and the lock stays free."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    stage.redis.rpush("redisson_lock_token:{name}", "precious")
    with pytest.raises(WrongTypeError):
        await owner.do(lock.acquire)
    assert stage.redis.keys() == [b"redisson_lock_token:{name}"]
    assert stage.redis.lrange("redisson_lock_token:{name}", 0, -1) == [b"precious"]
    stage.redis.delete("redisson_lock_token:{name}")
    assert await owner.do(lock.acquire, timeout=0)
