"""What users are told who mean something else; each case on both faces."""

from __future__ import annotations

import warnings
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from tests.faces.face_calls import call, told

import interlock
import interlock.asyncio
from interlock import MisuseWarning, NotHeldError, Options, WrongTypeError
from interlock.errors import AcquireTimeoutError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis
    from tests.lock.lock_like import Face

HOUR = timedelta(hours=2)


@pytest.fixture
async def client(face: Face, redis_url: str) -> AsyncIterator[Any]:
    """Give a client of each face in turn."""
    made = face.module.connect(redis_url)
    yield made
    await told(made.close())


async def test_not_held_names_the_holder(face: Face, client: Any) -> None:
    """A release or extension by somebody else names who holds the lock, and changes nothing."""
    lock, owner, other = client.lock("name"), face.owner(), face.owner()
    await other.do(lock.acquire)
    hold = await other.do(lambda: lock.hold)
    for wrong in (lock.release, lambda: lock.extend(5)):
        with pytest.raises(NotHeldError) as caught:
            await owner.do(wrong)
        assert caught.value.holder == hold.holder
        assert hold.holder in str(caught.value)
    assert await other.do(lock.hold_count) == 1
    await other.do(lock.release)
    for each in (owner, other):
        await each.end()


async def test_not_held_by_anybody(face: Face, client: Any) -> None:
    """A release of a free lock names nobody."""
    with pytest.raises(NotHeldError, match=r"not held by (thread|task) '") as caught:
        await call(face, client.lock("name").release)
    assert caught.value.holder is None


async def test_wrong_type_names_what_was_found(
    face: Face, client: Any, redis_client: redis.Redis
) -> None:
    """WrongTypeError names the type, and does not advise removing another library's lock."""
    redis_client.rpush("queue", "x")
    redis_client.set("mutex", "token", px=60_000)
    with pytest.raises(WrongTypeError, match="'queue' is a list") as caught:
        await call(face, client.lock("queue").acquire)
    assert caught.value.found == {"queue": "list"}
    assert "remove" not in str(caught.value)
    assert "nother library" not in str(caught.value)
    with pytest.raises(
        WrongTypeError, match=r"is a string that ends in .*Another library may hold"
    ):
        await call(face, client.lock("mutex").acquire)
    with pytest.raises(WrongTypeError, match="is a list"):
        await call(face, client.count_down_latch("queue").count)


JAVA = {
    "client": ("getFairLock fair_lock", "get_fenced_lock fenced_lock", "tryLock try_lock"),
    "lock": ("unlock release(", "isHeldByCurrentThread owned(", "remainTimeToLive remaining"),
    "read_write_lock": ("readLock read", "acquire read"),
    "semaphore": ("tryAcquire trying(",),
    "leased_semaphore": ("updateLeaseTime extend(",),
    "count_down_latch": ("countDown count_down",),
}


@pytest.mark.parametrize("kind", JAVA)
async def test_names_of_java(client: Any, kind: str) -> None:
    """A method of Redisson's that we lack raises AttributeError and names ours."""
    thing = client if kind == "client" else getattr(client, kind)("name")
    for line in JAVA[kind]:
        theirs, ours = line.split()
        with pytest.raises(AttributeError, match=f"{theirs!r}: use .*") as caught:
            getattr(thing, theirs)
        assert f"use {ours}" in str(caught.value)
        assert hasattr(thing, ours.rstrip("("))
    with pytest.raises(AttributeError, match=r"no attribute 'nonsense'$"):
        _ = thing.nonsense
    assert not hasattr(thing, "_private")
    shown = {*dir(thing), *dir(type(thing))}
    assert not shown & {line.split()[0] for line in JAVA[kind]}


async def test_a_long_lease(face: Face, client: Any) -> None:
    """A lease from ten minutes on warns once for each client, unless it is a timedelta."""
    with pytest.warns(MisuseWarning, match="milliseconds") as warned:
        _ = [client.lock(name, lease=30000) for name in "abc"]
    assert len(warned) == 1
    assert warned[0].filename == __file__
    other = face.module.connect("redis://localhost")
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        client.lock("d", lease=40000)
        other.lock("e", lease=HOUR)
        other.lock("f", lease=599)
        Options(lease=HOUR)
    with pytest.warns(MisuseWarning, match="milliseconds"):
        face.module.connect("redis://localhost", lease=30000)


async def test_durations_may_be_timedeltas(face: Face, redis_url: str) -> None:
    """Whatever is a duration may be a timedelta, and means as many seconds."""
    short, second, long = timedelta(seconds=0.05), timedelta(seconds=1), timedelta(seconds=5)
    options = Options(lease=HOUR, fair_wait=second, command_timeout=second)
    assert (options.lease, options.fair_wait) == (7200.0, 1.0)
    policy = interlock.best_effort(1, second)
    assert policy.timeout == 1.0
    client = face.module.connect(redis_url, lease=long, outage_timeout=long)
    try:
        lock = client.lock("name", timeout=short, lease=long)
        other = client.lock("name", timeout=short)
        owner = face.owner()
        assert await owner.do(lock.acquire, timeout=second, lease=long)
        assert not await call(face, other.acquire, timeout=short)
        with pytest.raises(AcquireTimeoutError):
            await call(face, face.enter, other)
        await owner.do(lock.extend, HOUR)
        assert 7190 < await call(face, lock.remaining) <= 7200
        await owner.do(lock.release)
        await owner.end()
        assert await call(face, face.enter, client.try_lock("other", timeout=short, lease=second))
        permits = client.semaphore("permits", timeout=short)
        assert not await call(face, permits.acquire, timeout=short)
        leased = client.leased_semaphore("leased")
        await call(face, leased.try_set_permits, 1)
        permit = await call(face, leased.acquire, 1, timeout=short, lease=second)
        await call(face, permit.extend, long)
        await call(face, leased.extend, permit, long)
        assert 4 < permit.remaining <= 5
        assert await call(face, leased.try_acquire, 1, timeout=short, lease=second) is None
        latch = client.count_down_latch("latch")
        await call(face, latch.try_set_count, 1)
        assert not await call(face, latch.wait, short)
        with pytest.raises(ValueError, match="timeout"):
            await call(face, lock.acquire, timeout=timedelta(seconds=-2))
    finally:
        await told(client.close())


NOT_RUN = "has not run yet and has no truth value: write `await` in front of it$"


async def test_a_forgotten_await(redis_url: str) -> None:
    """A truth test of a call that is not awaited takes nothing and raises, with the name."""
    async with interlock.asyncio.connect(redis_url) as client:
        lock = client.lock("name")
        with pytest.raises(TypeError, match=f"^acquire {NOT_RUN}"):
            assert lock.acquire()
        assert not await lock.locked()
        for waits in (client.event("name"), client.count_down_latch("name")):
            with pytest.raises(TypeError, match=f"^wait {NOT_RUN}"):
                assert waits.wait(timeout=1)


async def test_the_sync_face_in_an_event_loop(redis_url: str) -> None:
    """A sync call that blocks an event loop is a warning, once for each loop."""
    with interlock.connect(redis_url) as client:
        with pytest.warns(MisuseWarning, match=r"use interlock\.asyncio") as warned:
            _ = [client.lock("name").locked() for _ in range(2)]
        assert len(warned) == 1
        assert warned[0].filename == __file__
