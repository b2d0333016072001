"""The semaphores and the latch: what each call does, on both faces, and what is left."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import redis
from tests.objects.awaited import Stage, until
from tests.support.cards import own_keys
from tests.support.proxy import FaultProxy, command, drop_request, swallow_reply

import interlock
from interlock import (
    ConfigError,
    HoldLostError,
    LatchDeletedError,
    MisuseWarning,
    NotHeldError,
    ServerUnavailableError,
    WrongTypeError,
)


async def test_trouble_at_the_end_does_not_mask_the_bodys(plain: Stage) -> None:
    """If the release at the end of a block fails, the block's own exception goes on with a note."""
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    await owner.do(semaphore.try_set_permits, 1)
    await owner.do(plain.face.enter, semaphore)
    plain.redis.delete("name")
    plain.redis.hset("name", "a", "b")
    error = ValueError("the body's")
    assert not await owner.do(plain.face.leave, semaphore, error)
    assert "is in use by something else" in error.__notes__[0]
    with pytest.raises(WrongTypeError):
        await owner.do(plain.face.leave, semaphore)


def test_close_leaves_what_no_block_has(redis_url: str, redis_client: redis.Redis) -> None:
    """Another client may release what `acquire` took, so a close does not."""
    with interlock.connect(redis_url) as client:
        semaphore = client.semaphore("name")
        semaphore.try_set_permits(5)
        with semaphore, semaphore.trying(2):
            semaphore.acquire()
    assert redis_client.get("name") == b"4"


async def test_java_hears_nothing_of_a_new_waiter(plain: Stage) -> None:
    """Whoever begins to listen asks whether scripts may send, on a channel that nobody hears."""
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    assert await owner.do(semaphore.try_set_permits, 1)
    with plain.redis.pubsub() as heard:
        heard.subscribe("redisson_sc:{name}")
        await until(lambda: heard.get_message() is not None, 5, "it hears")
        assert await owner.do(semaphore.acquire)
        assert not await owner.do(semaphore.acquire, timeout=0.5)
        messages = [each["data"] for each in iter(lambda: heard.get_message(timeout=0.2), None)]
    assert messages == []


async def test_a_number_of_java_is_not_guessed(plain: Stage) -> None:
    """The sum of a semaphore that another program made is not known; nothing is changed."""
    owner, client = plain.owner(), plain.client()
    plain.redis.set("name", 2)
    with pytest.raises(ValueError, match="set up by another program"):
        await owner.do(client.semaphore("name").set_permits, 4)
    assert plain.redis.get("name") == b"2"
    await owner.do(client.semaphore("name").add_permits, 1)
    assert await owner.do(client.semaphore("name", 5).acquire, timeout=0)
    with pytest.warns(MisuseWarning, match="has 2 permits on the server, not 1"):
        assert await owner.do(plain.client().semaphore("name", 1).acquire, timeout=0)
    assert await owner.do(client.semaphore("name").delete)
    await owner.do(client.semaphore("name").set_permits, 4)
    assert plain.redis.get("name") == b"4"


@pytest.mark.parametrize("call", ["release", "release_if_exists", "count_down"])
async def test_what_is_given_first_in_an_outage_counts(
    plain: Stage, proxy: FaultProxy, call: str
) -> None:
    """If a number cannot even be looked up before permits come back, the background brings them."""
    owner, name = plain.owner(), call.partition("_")[0]
    away = plain.client(proxy.url(), command_timeout=0.3, outage_timeout=2)
    await owner.do(away.lock("other").locked)
    for client in (plain.client(), away):
        if name == "count":
            joint: Any = client.count_down_latch(name, count=5)
            left = joint.count
        else:
            joint = client.semaphore(name, permits=5)
            left = joint.available_permits
        if client is not away:
            assert await owner.do(left) == 5
    proxy.on_request(command("EVALSHA"), drop_request)
    with pytest.raises(ServerUnavailableError):
        await owner.do(getattr(joint, call))
    assert plain.redis.get(name) == b"5"
    proxy.clear_rules()
    after = b"4" if name == "count" else b"6"
    await until(lambda: plain.redis.get(name) == after, 20, "it counts")


@pytest.mark.parametrize("call", ["acquire", "drain_permits", "release"])
async def test_an_outage_that_is_too_long(plain: Stage, proxy: FaultProxy, call: str) -> None:
    """Without a reply the call raises; in the end taken permits are back, and given ones stay."""
    client = plain.client(proxy.url(), command_timeout=0.8, outage_timeout=0.8)
    owner, semaphore = plain.owner(), plain.lock(client)
    plain.redis.set("name", 5)
    await owner.do(semaphore.available_permits)
    proxy.on_request(command("EVALSHA"), swallow_reply)
    with pytest.raises(ServerUnavailableError):
        await owner.do(getattr(semaphore, call))
    proxy.clear_rules()
    wanted = b"6" if call == "release" else b"5"
    await until(lambda: plain.redis.get("name") == wanted, 5, "it is settled")
    await asyncio.sleep(0.5)  # what comes late has come
    assert plain.redis.get("name") == wanted


ALL = "interlock_semaphore_total:{name}"


@pytest.mark.filterwarnings("ignore:semaphore .* are wanted together:interlock.MisuseWarning")
async def test_latches_do_not_pile_up(plain: Stage) -> None:
    """However many calls one object makes, the latch of one of them is left, and it expires."""
    client = plain.client(command_timeout=0.6, outage_timeout=0.6)
    owner, semaphore = plain.owner(), plain.lock(client)
    await owner.do(semaphore.try_set_permits, 2)
    for _ in range(15):
        await owner.do(semaphore.acquire)
        await owner.do(semaphore.release)
        await owner.do(semaphore.add_permits, 1)
        await owner.do(semaphore.try_set_permits, 9)
        await owner.do(semaphore.acquire, 99, blocking=False)
        await owner.do(semaphore.acquire)
    assert len(own_keys(plain.redis)) <= 3
    await until(lambda: own_keys(plain.redis) == {"name", ALL}, 10, "the last latch has expired")


async def test_a_single_try_after_the_server_has_closed_the_connection(
    plain: Stage, proxy: FaultProxy
) -> None:
    """A server closes connections that were idle for long; a single try is made on a new one."""
    owner, client = plain.owner(), plain.client(proxy.url())
    for name, call in {
        "semaphore": lambda: client.semaphore("a", permits=1, idle=60).acquire(timeout=0),
        "leased": lambda: client.leased_semaphore("b", permits=1).try_acquire(),
        "limited": lambda: client.limited("c", 1).acquire(timeout=0),
        "latch": lambda: client.count_down_latch("d", count=1).wait(timeout=0),
        "event": lambda: client.event("e").wait(timeout=0),
    }.items():
        await owner.do(client.lock("name").locked)
        await asyncio.to_thread(proxy.disconnect)
        assert bool(await owner.do(call)) == (name not in {"latch", "event"})
    await plain.close(client)


async def _counts(owner: Any, semaphore: Any) -> tuple[int, int, int]:
    return (
        await owner.do(semaphore.available_permits),
        await owner.do(semaphore.acquired_permits),
        await owner.do(semaphore.permits),
    )


async def test_a_lease_is_prolonged(leased: Stage) -> None:
    """A longer lease keeps the permit longer, also by its id; a shorter one changes nothing."""
    owner, semaphore = leased.owner(), leased.lock(leased.client())
    await owner.do(semaphore.try_set_permits, 3)
    one = await owner.do(semaphore.acquire, lease=2)
    two = await owner.do(semaphore.acquire, lease=2)
    three = await owner.do(semaphore.acquire)
    await owner.do(one.extend, 60)
    await owner.do(one.extend, 1)
    await owner.do(leased.lock(leased.client()).extend, two.ids[0], 60)
    await owner.do(semaphore.extend, three, 60)
    await asyncio.sleep(2.2)  # longer than the lease that two of them had first
    assert one
    assert one.remaining > 50
    assert three.remaining > 50
    assert await _counts(owner, semaphore) == (0, 3, 3)
    await owner.do(one.release)
    with pytest.raises(NotHeldError):
        await owner.do(one.extend, 60)


async def test_a_permit_that_is_gone_is_not_prolonged(leased: Stage) -> None:
    """To prolong what the server has no more tells that it is lost."""
    owner, semaphore = leased.owner(), leased.lock(leased.client())
    await owner.do(semaphore.try_set_permits, 1)
    permit = await owner.do(semaphore.acquire, lease=60)
    leased.redis.delete("{name}:timeout")
    for _ in range(2):
        with pytest.raises(HoldLostError):
            await owner.do(permit.extend, 60)
    assert permit.lost.is_set()


async def test_a_number_that_was_evicted_alone(leased: Stage) -> None:
    """Whatever sets the number again counts the permits that are held: never too many work."""
    ours, theirs = leased.owner(), leased.owner()
    permit = await ours.do(leased.lock(leased.client(), permits=2).acquire, 2)
    leased.redis.delete("name")
    semaphore = leased.lock(leased.client(), permits=2)
    assert await theirs.do(semaphore.try_acquire, timeout=0) is None
    assert await _counts(theirs, semaphore) == (0, 2, 2)
    await theirs.do(semaphore.set_permits, 3)
    assert await _counts(theirs, semaphore) == (1, 2, 3)
    leased.redis.delete("name")
    assert await theirs.do(semaphore.try_set_permits, 2)
    assert await _counts(theirs, semaphore) == (0, 2, 2)
    leased.redis.delete("name")
    assert await theirs.do(semaphore.try_set_permits, 1)
    assert await _counts(theirs, semaphore) == (-1, 2, 1)
    assert not await theirs.do(semaphore.try_set_permits, 5)
    await theirs.do(semaphore.set_permits, 2)
    await ours.do(permit.release)
    assert await _counts(theirs, semaphore) == (2, 0, 2)


CHANNEL = "redisson_sc:{name}"
PERMANENT = 922337203685477
JAVAS = bytes(range(240, 256))
"""The id of a permit that a Java process has."""


async def test_expired_permits_of_java_come_back(leased: Stage) -> None:
    """Any question takes back and announces what has expired of all holders."""
    owner, semaphore = leased.owner(), leased.lock(leased.client())
    leased.redis.set("name", 0)
    now = int(leased.redis.time()[0] * 1000)
    leased.redis.zadd("{name}:timeout", {JAVAS: now - 5, b"p" * 16: PERMANENT, b"q" * 16: now - 1})
    with leased.redis.pubsub() as heard:
        heard.subscribe(CHANNEL)
        assert await owner.do(semaphore.available_permits) == 2
        messages: list[Any] = []
        await until(
            lambda: messages.append(heard.get_message()) or len([m for m in messages if m]) == 2,
            5,
            "the message came",
        )
    assert [each["data"] for each in messages if each] == [1, b"2"]
    assert leased.redis.zrange("{name}:timeout", 0, -1) == [b"p" * 16]
    assert await owner.do(semaphore.acquired_permits) == 1
    assert await owner.do(semaphore.permits) == 3


async def test_no_lease_outlasts_its_semaphore(leased: Stage) -> None:
    """A lease that is longer than the semaphore stays is refused, or a permit ended too early."""
    owner, client = leased.owner(), leased.client(lease=10)
    semaphore = leased.lock(client, permits=2, idle=20)
    for call in (semaphore.acquire, semaphore.try_acquire):
        with pytest.raises(ConfigError, match="removed after 20 s, and a lease of 21 s is longer"):
            await owner.do(call, lease=21)
    permit = await owner.do(semaphore.acquire, lease=20)
    for target in (permit, permit.ids[0]):
        with pytest.raises(ConfigError, match="give a longer idle="):
            await owner.do(semaphore.extend, target, 21)
    with pytest.raises(ConfigError, match="removed after 9 s"):
        leased.lock(client, permits=2, idle=9)


async def test_waiters_are_told_of_an_idle_latch_that_has_ended(plain: Stage) -> None:
    """A waiter that could not look in time hears that the latch is gone, not that it is open."""
    client, owners = plain.client(), [plain.owner() for _ in range(2)]
    latch = client.count_down_latch("name", count=1, idle=1.5)
    waits = [asyncio.ensure_future(owner.do(latch.wait, timeout=30)) for owner in owners]
    places = client._driver.session.queues.places
    await until(lambda: len(places) == 2, 10, "both wait")
    plain.redis.execute_command("CLIENT", "PAUSE", "2500", "ALL")
    for ended in await asyncio.gather(*waits, return_exceptions=True):
        assert isinstance(ended, LatchDeletedError)
        assert "the idle time of latch 'name' ended" in str(ended)
