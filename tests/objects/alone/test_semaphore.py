"""The counting semaphore: what its calls do, on both faces."""

from __future__ import annotations

import asyncio
import warnings
from typing import Any

import pytest
import redis
from tests.objects.awaited import Stage, until
from tests.support.cards import own_keys
from tests.support.proxy import FaultProxy, command, drop_request, swallow_reply

import interlock
import interlock.asyncio
from interlock import MisuseWarning, ServerUnavailableError, WrongTypeError


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


@pytest.mark.parametrize("kind", ["semaphore", "leased_semaphore"])
async def test_the_first_wait_for_a_missing_one_says_so(plain: Stage, kind: str) -> None:
    """A wait for a semaphore that nobody has set up warns at once, once for each name.

    It goes on waiting, and ends when somebody sets the semaphore up. One try says nothing.
    """
    owner, client = plain.owner(), plain.client()
    semaphore: Any = getattr(client, kind)("name")
    one_try = semaphore.acquire if kind == "semaphore" else semaphore.try_acquire
    assert not await owner.do(one_try, timeout=0)
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        waiting = asyncio.ensure_future(owner.do(semaphore.acquire))
        await until(lambda: bool(told), 5, "it warns")
        assert not waiting.done()
        assert await plain.owner().do(getattr(plain.client(), kind)("name").try_set_permits, 1)
        assert await waiting
        assert not await plain.owner().do(one_try, timeout=0.05)
    (warning,) = told
    assert warning.category is MisuseWarning
    assert f"client.{kind}('name', permits=n)" in str(warning.message)


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
    """If no reply comes at all, the call raises, and is settled when the server is back.

    Permits that were taken come back. Permits that were given stay.
    """
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


@pytest.mark.parametrize("call", ["acquire", "release", "try_set_permits", "add_permits"])
async def test_bad_numbers_change_nothing(plain: Stage, call: str) -> None:
    """A number of permits that cannot be raises a clear error before anything is sent."""
    owner, semaphore = plain.owner(), plain.lock(plain.client())
    await owner.do(semaphore.try_set_permits, 3)
    for number, error in (
        (2**31, ValueError),
        (1.0, TypeError),
        ("1", TypeError),
        (True, TypeError),
    ):
        with pytest.raises(error, match="permits"):
            await owner.do(getattr(semaphore, call), number)
    assert plain.redis.get("name") == b"3"


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
