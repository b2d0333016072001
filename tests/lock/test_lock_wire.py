"""What goes over the wire: the conversation that Java takes part in, and how short it is."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import KINDS, ON_ONE_SERVER, sent_in, until
from tests.support.cards import own_keys, waited_channels
from tests.support.holding import held
from tests.support.servers import wait_until

import interlock
from interlock import ReentryError

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer

CHANNEL = "redisson_lock__channel:{orders}"


async def test_the_conversation_is_redissons(plain: Stage, server: RedisServer) -> None:
    """In MONITOR acquire, re-entry, waiting and release read like Redisson's.

    A hand-over makes the next one the holder.
    """
    one, two = plain.client(card=False), plain.client(card=False)
    a, b = plain.owner(), plain.owner()
    mine, theirs = one.lock("orders"), two.lock("orders")
    queue = "interlock_queue:{orders}"
    with server.client() as watcher, watcher.monitor() as monitor:
        await a.do(mine.acquire)
        first = (await a.do(lambda: mine.hold)).holder
        await a.do(mine.acquire)
        waiting = asyncio.create_task(b.do(theirs.acquire))
        await until(lambda: plain.redis.exists(queue), 5, "b waits")
        await a.do(mine.release)
        await a.do(mine.release)
        assert await asyncio.wait_for(waiting, 20)
        second = (await b.do(lambda: theirs.hold)).holder
        await until(lambda: plain.redis.pttl("orders") > 20_000, 5, "it has a whole lease")
        await b.do(theirs.release)
        await until(lambda: not waited_channels(plain.redis), 5, "b's client unsubscribed")
        plain.redis.echo("the end")
        heard: list[str] = []
        while not (command := monitor.next_command()["command"]).endswith("the end"):
            heard.append(command.replace('"', ""))
    writing = ("hset", "hdel", "pexpire", "publish", "del", "subscribe", "unsubscribe")
    written = [line for line in heard if line.split()[0].lower() in writing and queue not in line]
    # The re-entry lengthens the lease too, unless it comes within the same millisecond.
    again = written.index(f"hset orders {first} 2") + 1
    if written[again] == "pexpire orders 30000":
        del written[again]
    number = second.rpartition(":")[2]
    told = next(line for line in written if line.split()[-1].startswith(f"{number}|"))
    wake = f"interlock_wake:{{orders}}:{two.client_id}"
    channels = f"{CHANNEL} interlock_waiting:{{orders}} {wake}"
    written = [line.lower() if "SUBSCRIBE" in line else line for line in written]
    # It is sent after a rest, whenever the release comes.
    written.remove(f"unsubscribe {channels}")
    assert written == [
        f"hset orders {first} 1",
        "pexpire orders 30000",
        f"hset orders {first} 2",
        f"subscribe {channels}",
        "hdel orders ",
        f"hset orders {first} 1",
        f"hset orders {second} 1",
        "pexpire orders 3000",
        f"PUBLISH {wake} {told.split()[-1]}",
        f"hdel orders {first}",
        "pexpire orders 30000",
        "del orders",
        f"PUBLISH {CHANNEL} 0",
    ]


on_one_server = pytest.mark.parametrize(
    "kind", ON_ONE_SERVER, indirect=True, ids=lambda kind: kind.name
)


@on_one_server
async def test_uncontended_is_two_round_trips(proxy: FaultProxy, stage: Stage) -> None:
    """Acquire and release of a free lock are one EVALSHA each: no subscription, no second look."""
    client, owner = stage.client(proxy.url()), stage.owner()
    await owner.do(stage.lock(client, "warm-up").acquire)
    await owner.do(stage.lock(client, "warm-up").release)
    lock = stage.lock(client)
    for options in ({}, {"timeout": 5, "lease": 5}):
        proxy.clear_record()
        assert await owner.do(lock.acquire, **options)
        await owner.do(lock.release)
        assert [request.args[0] for request in proxy.record] == [b"EVALSHA", b"EVALSHA"]


async def test_an_uncontended_pair_declares_one_key_more_than_the_lock(
    proxy: FaultProxy, plain: Stage
) -> None:
    """An acquire declares the lock alone, and a release the queue of waiters beside it."""
    lock, owner = plain.client(proxy.url()).lock("orders"), plain.owner()
    for _ in range(2):  # the first pair makes the server know the scripts
        proxy.clear_record()
        await owner.do(lock.acquire)
        await owner.do(lock.release)
    keys = [request.args[3 : 3 + int(request.args[2])] for request in proxy.record]
    assert keys == [[b"orders"], [b"orders", b"interlock_queue:{orders}"]]
    assert [len(request.args) for request in proxy.record] == [7, 8]


@on_one_server
async def test_a_refused_single_try_is_one_round_trip(proxy: FaultProxy, stage: Stage) -> None:
    """A try without waiting asks once, and writes nothing that would have to be taken back."""
    owner, other = stage.owner(), stage.owner()
    lock = stage.lock(stage.client(proxy.url()))
    await owner.do(stage.lock(stage.client()).acquire)
    await other.do(lock.locked)
    before = stage.left_behind()
    proxy.clear_record()
    assert not await other.do(lock.acquire, timeout=0)
    assert not await other.do(lock.acquire, blocking=False)
    assert proxy.commands == {"EVALSHA": 2}
    assert stage.left_behind() == before


async def test_a_forced_release_leaves_a_note_that_expires(plain: Stage) -> None:
    """It is remembered, so that no late copy breaks a later hold."""
    lock, owner = plain.client().lock("orders"), plain.owner()
    await owner.do(lock.acquire)
    assert await owner.do(lock.force_release)
    [note] = plain.redis.keys("interlock_request:{orders}:*")
    assert 0 < plain.redis.pttl(note) <= 600_000


async def test_an_idle_waiter_is_nearly_silent(proxy: FaultProxy, plain: Stage) -> None:
    """Fifty waiters of one client together send as much as one of them."""
    owner, client = plain.owner(), plain.client(proxy.url())
    await owner.do(plain.client().lock("orders").acquire)
    lock, waiters = client.lock("orders"), [plain.owner() for _ in range(50)]
    waiting = [asyncio.create_task(each.do(lock.acquire, timeout=60)) for each in waiters]
    await until(
        lambda: any(b"interlock_client:" in b" ".join(sent.args) for sent in proxy.record),
        5,
        "a card",
    )
    took = await sent_in(proxy, 4)
    # A try per poll cap of 2 s less a quarter, and after each a look for dead clients. A PING each
    # half second, and one card per third of a lease. Each may fall into the first moment too.
    sent = [each for each in proxy.record if each.args[0] != b"EVAL"]  # the text comes once
    assert len(sent) <= sum(1 + took // period for period in (0.5, 1.5, 1.5, 5, 10))
    await plain.close(client)
    results = await asyncio.gather(*waiting, return_exceptions=True)
    assert {type(result) for result in results} == {interlock.ClosedError}


def test_many_holds_cost_a_round_trip_for_each_batch(
    proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """One client renews 2,000 holds, 100 by a script, and all scripts in one write.

    None is renewed later than a third of the lease.
    """
    lease = 12.0
    with interlock.connect(proxy.url(), lease=lease) as client:
        holds = [held(client.lock(f"name {number}")) for number in range(2_000)]
        time.sleep(lease / 3)  # by then each has joined the rounds
        before = client.lock("name 0").remaining()
        assert before is not None
        wait_until(
            lambda: (client.lock("name 0").remaining() or 0) > before, lease, "a round begins"
        )
        time.sleep(0.5)  # the round ends
        proxy.clear_record()
        started = time.monotonic()
        time.sleep(lease / 3 * 2)  # what renewal sends in real time is counted
        periods = (time.monotonic() - started) / (lease / 3)
        trips = proxy.round_trips
        assert trips <= 4 * (periods + 1)
        assert all(hold is not None and hold.valid for hold in holds)
        left = [redis_client.pttl(f"name {number}") for number in range(0, 2_000, 100)]
        assert min(left) > lease * 1000 * 0.4, "each was renewed within a third of its lease"
    assert not own_keys(redis_client)


async def test_a_neighbour_costs_one_round_trip(plain: Stage) -> None:
    """A release makes the next waiter of its client the holder, by one script and no message."""
    client = plain.client(card=False)
    a, b = plain.owner(), plain.owner()
    lock = client.lock("name", lease=20)
    await a.do(lock.acquire)
    waiting = asyncio.create_task(b.do(client.lock("name").acquire))
    await until(
        lambda: plain.redis.pubsub_numsub("redisson_lock__channel:{name}")[0][1], 5, "b waits"
    )
    await plain.waits()
    plain.redis.config_resetstat()
    await a.do(lock.release)
    assert await asyncio.wait_for(waiting, 20)
    commands = plain.redis.info("commandstats")
    assert commands["cmdstat_evalsha"]["calls"] == 1
    assert "cmdstat_publish" not in commands
    holder = (await b.do(lambda: lock.hold)).holder
    assert plain.redis.hgetall("name") == {holder.encode(): b"1"}
    await b.do(lock.release)
    assert not plain.redis.exists("name")


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if not kind.reentrant],
    indirect=True,
    ids=lambda kind: kind.name,
)
async def test_one_that_is_not_reentrant_refuses_without_asking(
    proxy: FaultProxy, stage: Stage
) -> None:
    """Taken again by its owner, it raises at once, changes nothing and sends nothing."""
    lock, owner = stage.lock(stage.client(proxy.url())), stage.owner()
    await owner.do(lock.acquire)
    before = stage.redis.dump("name"), stage.left_behind()
    proxy.clear_record()
    with pytest.raises(ReentryError):
        await owner.do(lock.acquire)
    assert proxy.record == []
    assert (stage.redis.dump("name"), stage.left_behind()) == before
    await owner.do(lock.release)
