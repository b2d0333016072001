"""The number of permits that the user's code names, and semaphores that nobody has set up."""

from __future__ import annotations

import asyncio
import warnings
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

import pytest
from tests.lock.lock_like import until
from tests.support.proxy import FaultProxy, command, delay

from interlock import MisuseWarning
from interlock._drivers import aio, threads

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage


def sent(stage: Stage) -> int:
    """Return how many scripts the server has run."""
    stats = stage.redis.info("commandstats")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in ("eval", "evalsha"))


async def test_the_first_call_sets_the_number(plain: Stage) -> None:
    """The first call of a client sets a number that is missing; later calls send nothing more."""
    owner, client = plain.owner(), plain.client(card=False)
    assert await owner.do(client.semaphore("name", 3).available_permits) == 3
    before = sent(plain)
    for _ in range(2):
        assert await owner.do(client.semaphore("name", permits=3).acquire, timeout=0)
    assert sent(plain) == before + 2
    other = plain.client().semaphore("name", permits=9)
    with pytest.warns(MisuseWarning, match="'name' has 3 permits on the server, not 9"):
        assert await owner.do(other.acquire, timeout=0)
    assert not await owner.do(other.acquire, timeout=0)


@pytest.mark.parametrize("call", ["release", "add_permits"])
async def test_giving_before_the_first_acquire_adds(plain: Stage, call: str) -> None:
    """A permit that is given before anybody has set the number comes on top of it."""
    owner, semaphore = plain.owner(), plain.lock(plain.client(), permits=2)
    await owner.do(getattr(semaphore, call), 1)
    assert await owner.do(semaphore.available_permits) == 3


async def test_a_signal_starts_at_none(plain: Stage) -> None:
    """A semaphore of 0 permits exists, and waits for a release without any warning."""
    owner, semaphore = plain.owner(), plain.lock(plain.client(), permits=0)
    assert not await owner.do(semaphore.acquire, timeout=0.05)
    plain.redis.delete("name")
    await owner.do(semaphore.release)
    assert await owner.do(semaphore.acquire, timeout=0)


async def test_a_waiter_sets_a_lost_number(plain: Stage) -> None:
    """A waiter that looks again finds the semaphore missing, sets the number and gets a permit."""
    owner, semaphore = plain.owner(), plain.lock(plain.client(), permits=1)
    await owner.do(semaphore.acquire)
    waiting = asyncio.ensure_future(plain.owner().do(semaphore.acquire))
    await until(lambda: bool(plain.redis.pubsub_channels("*name*")), 5, "it listens")
    plain.redis.flushdb()
    assert await waiting


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


async def test_a_wait_for_one_that_is_in_use_says_nothing(plain: Stage) -> None:
    """A wait for a semaphore whose permits are all taken, or that has leases, warns of nothing."""
    owner, client = plain.owner(), plain.client()
    assert await owner.do(client.semaphore("name", 1).acquire)
    assert not await owner.do(plain.lock(plain.client()).acquire, timeout=0.05)
    permit = await owner.do(client.leased_semaphore("leased", 1).acquire)
    other = plain.client().leased_semaphore("leased")
    assert await owner.do(other.try_acquire, timeout=0.05) is None
    await owner.do(permit.release)


async def test_numbers_are_checked_at_once(plain: Stage) -> None:
    """A number that cannot be raises where the object is made."""
    client = plain.client()
    for make, wrong in ((client.semaphore, -1), (client.leased_semaphore, 0)):
        with pytest.raises(ValueError, match="permits must be"):
            make("name", wrong)
        with pytest.raises(TypeError):
            make("name", "5")


async def test_a_single_try_far_from_the_server_is_answered(
    plain: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One try lasts a whole round trip, the first of a client too: it sets a number before."""
    monkeypatch.setattr(threads, "GRACE", 0.05)
    monkeypatch.setattr(aio.AsyncDriver._seconds, "__defaults__", (0.05,))
    owner, parts = plain.owner(), urlsplit(plain.url)
    with FaultProxy((str(parts.hostname), parts.port or 0)) as proxy:
        proxy.on_request(command("EVALSHA"), delay(0.2))
        client = plain.client(proxy.url())
        assert await owner.do(client.semaphore("a", permits=1, idle=60).acquire, timeout=0)
        permit = await owner.do(client.leased_semaphore("b", permits=1).try_acquire)
        limited = await owner.do(client.limited("c", 1).acquire, timeout=0)
        assert not await owner.do(client.count_down_latch("d", count=1).wait, timeout=0)
        assert not await owner.do(client.event("e").wait, timeout=0)
        for each in (permit, limited):
            assert each
            await owner.do(each.release)
    assert proxy.fired


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
