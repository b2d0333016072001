"""What users are told who mean something else; each case on both faces."""

from __future__ import annotations

import pickle
import warnings
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Any

import pytest
import redis
from tests.faces.face_calls import call, told
from tests.objects.awaited import Face
from tests.support.servers import RedisServer

import interlock
import interlock.asyncio
from interlock import MisuseWarning, NotHeldError, Options, WrongTypeError

HOUR = timedelta(hours=2)


@pytest.fixture
async def client(face: Face, redis_url: str) -> AsyncIterator[Any]:
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
        lock, owner = client.lock("name", timeout=short, lease=long), face.owner()
        assert await owner.do(lock.acquire, timeout=second, lease=long)
        assert not await call(face, lock.acquire, timeout=short)
        await owner.do(lock.extend, HOUR)
        assert 7190 < await call(face, lock.remaining) <= 7200
        await owner.do(lock.release)
        await owner.end()
        assert not await call(
            face, client.semaphore("permits", timeout=short).acquire, timeout=short
        )
        latch = client.count_down_latch("latch", count=1)
        assert not await call(face, latch.wait, short)
        with pytest.raises(ValueError, match="timeout"):
            await call(face, lock.acquire, timeout=timedelta(seconds=-2))
    finally:
        await told(client.close())


async def test_the_sync_face_in_an_event_loop(redis_url: str) -> None:
    """A sync call that blocks an event loop is a warning, once for each loop."""
    with interlock.connect(redis_url) as client:
        with pytest.warns(MisuseWarning, match=r"use interlock\.asyncio") as warned:
            _ = [client.lock("name").locked() for _ in range(2)]
        assert len(warned) == 1
        assert warned[0].filename == __file__


KINDS = ("Lock", "Semaphore", "LeasedSemaphore", "CountDownLatch", "ReadWriteLock", "Client")
KINDS += ("Event", "Election", "Barrier", "Condition")


@pytest.mark.parametrize("kind", [*KINDS, "Hold", "Permit"])
def test_a_class_is_no_factory(face: Face, kind: str) -> None:
    """A class that users do not construct says who makes its objects."""
    for argument in ("name", "redis://localhost"):
        with pytest.raises(TypeError, match=rf"{kind} is not made by its class: use \w+\."):
            getattr(face.module, kind)(argument)


async def test_nothing_is_pickled(client: Any) -> None:
    """Pickling a client or one of its objects says what to do instead."""
    things = [client, client.lock("a"), client.read_write_lock("a"), client.semaphore("a")]
    things += [client.leased_semaphore("a"), client.count_down_latch("a")]
    things += [client.multi_lock(client.lock("a"), client.lock("b"))]
    for thing in things:
        with pytest.raises(TypeError, match=r"connect\(url\) in each process"):
            pickle.dumps(thing)


def test_warnings_point_at_the_users_line(
    face: Face, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    """The warnings of `connect` name the line that called it."""
    from interlock._links import urls

    urls._warn_once.cache_clear()
    monkeypatch.delenv("INTERLOCK_URL", raising=False)
    monkeypatch.delenv("REDIS_URL", raising=False)
    for mistake in (
        lambda: face.module.connect(redis_url, lease=30000),
        lambda: interlock.Options(lease=30000),
        face.module.connect,
    ):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            mistake()
        assert [warning.filename for warning in caught] == [__file__]
    assert issubclass(caught[0].category, urls.EmbeddedWarning)
    with pytest.warns(MisuseWarning, match="milliseconds"):
        face.module.connect(redis_url, lease=30000)


@pytest.mark.parametrize("error", [ValueError("mine"), SystemExit(3)])
def test_a_client_that_cannot_release_keeps_the_error_of_the_body(error: BaseException) -> None:
    """If the server is gone, the block of a client raises the body's own exception."""
    with RedisServer() as own:
        with pytest.raises(type(error)) as raised:  # noqa: SIM117 - the server goes inside
            with interlock.connect(own.url(), outage_timeout=0.2, command_timeout=0.2) as client:
                client.lock("name").acquire()
                own.kill()
                raise error
        assert raised.value is error
        assert "interlock: " in raised.value.__notes__[0]


REFUSED = "is a coroutine function, which nobody would await here: give a plain function"


async def _later(*_: object) -> None:
    raise AssertionError("nobody calls it")


def _starts_later(*_: object) -> object:
    return _later()


def test_threads_await_nothing(redis_url: str) -> None:
    """A coroutine function would do nothing as a callback, and run without the lock elsewhere."""
    with interlock.connect(redis_url) as client:
        election, lock = client.election("leader"), client.lock("name")
        with lock as hold:
            for give in (hold.on_lost, election.observe, election.run):
                with pytest.raises(TypeError, match=REFUSED):
                    give(_later)
        condition = client.condition(lock)
        with condition, pytest.raises(TypeError, match="would run without the lock"):
            condition.wait_for(_later)
        with pytest.raises(TypeError, match="would run without the lock"):
            election.run(_starts_later)


async def test_asyncio_awaits_what_it_says(redis_url: str) -> None:
    """A loss awaits nothing, and a leader's work must be awaited."""
    async with interlock.asyncio.connect(redis_url) as client:
        async with client.lock("name") as hold:
            with pytest.raises(TypeError, match=REFUSED):
                hold.on_lost(_later)
        with pytest.raises(TypeError, match="print returned nothing to await: make it a coroutine"):
            await client.election("leader").run(print)  # type: ignore[arg-type]
