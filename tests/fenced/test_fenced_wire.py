"""The server's side of a fenced lock: the plain lock's hash and messages, and a counter."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import until

from interlock import WrongTypeError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.servers import RedisServer

JAVA = "2f5ca6ef-60f2-4fd7-9a8c-5ad1e9f8a0ff:38"


async def test_the_conversation_is_redissons(stage: Stage, server: RedisServer) -> None:
    """A first hold and a hand-over read in MONITOR like the plain lock's.

    The only addition is one step of the counter for each hold, and the token in the message.
    """
    one, two = stage.client(card=False), stage.client(card=False)
    a, b = stage.owner(), stage.owner()
    mine, theirs = stage.lock(one, "orders"), stage.lock(two, "orders")
    channel = "redisson_lock__channel:{orders}"
    # Between two even seconds no release leaves the lock to those who only look.
    await until(lambda: stage.redis.time()[0] % 2 == 0, 5, "there is time")
    with server.client() as watcher, watcher.monitor() as monitor:
        await a.do(mine.acquire)
        first = (await a.do(lambda: mine.hold)).holder
        waiting = asyncio.create_task(b.do(theirs.acquire))
        await until(lambda: stage.redis.exists("interlock_queue:{orders}"), 5, "b waits")
        await a.do(mine.release)
        assert await asyncio.wait_for(waiting, 20)
        second = (await b.do(lambda: theirs.hold)).holder
        await until(lambda: stage.redis.pubsub_channels() == [], 5, "b's client unsubscribed")
        await b.do(theirs.release)
        stage.redis.echo("the end")
        heard: list[str] = []
        while not (command := monitor.next_command()["command"]).endswith("the end"):
            heard.append(command.replace('"', ""))
    verbs = ("set", "incrby", "hset", "pexpire", "publish", "del", "subscribe", "unsubscribe")
    written = [line for line in heard if line.split()[0].lower() in verbs]
    # The renewal thread may ask once more for the lease of the second hold.
    kept = "pexpire orders 30000"
    written = [
        line
        for number, line in enumerate(written)
        if line != kept or kept not in written[number - 1 : number]
    ]
    number = second.rpartition(":")[2]
    told = next(line.split()[-1] for line in written if f" ={number}:" in line)
    assert told.endswith(":2:counter")
    wake = f"interlock_wake:{{orders}}:{two.client_id}"
    channels = f"{channel} interlock_waiting:{{orders}} {wake}"
    assert [line.lower() if "SUBSCRIBE" in line else line for line in written] == [
        "incrby redisson_lock_token:{orders} 1",
        f"hset orders {first} 1",
        "pexpire orders 30000",
        f"subscribe {channels}",
        "pexpire interlock_queue:{orders} 10000",
        "incrby redisson_lock_token:{orders} 1",
        f"hset orders {second} 1",
        "pexpire orders 250",
        f"PUBLISH {wake} {told}",
        "pexpire orders 30000",
        f"unsubscribe {channels}",
        "del orders",
        f"PUBLISH {channel} 0",
    ]


async def test_java_and_we_draw_from_one_counter(stage: Stage) -> None:
    """A lock that Java holds is refused until Java's message comes; our token is the one after."""
    client, owner = stage.client(poll_cap=30), stage.owner()
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
