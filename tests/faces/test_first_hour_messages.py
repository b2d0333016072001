"""Words that help newcomers in their first hours, on both faces."""

from __future__ import annotations

import pickle
import warnings
from typing import TYPE_CHECKING, Any

import pytest
from tests.faces.face_calls import call, told
from tests.support.servers import RedisServer

import interlock
import interlock.asyncio
from interlock import ConfigError, MisuseWarning, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.lock.lock_like import Face


@pytest.fixture
async def client(face: Face, redis_url: str) -> AsyncIterator[Any]:
    """Give a client of each face in turn."""
    made = face.module.connect(redis_url)
    yield made
    await told(made.close())


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


async def test_reentrant_is_a_bool(client: Any) -> None:
    """``reentrant="no"`` is refused: it would count as true."""
    with pytest.raises(TypeError, match="reentrant must be True or False, not 'no'"):
        client.lock("name", reentrant="no")


async def test_a_callback_is_callable(face: Face, client: Any) -> None:
    """`Hold.on_lost` refuses at once what cannot be called."""
    lock, owner = client.lock("name"), face.owner()
    await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    with pytest.raises(TypeError, match="a callback must be callable, not 3"):
        hold.on_lost(3)
    await owner.do(lock.release)
    await owner.end()


@pytest.mark.parametrize("url", ["redis://h/0/1", "redis+sentinel://h/m/0/1"])
def test_a_path_is_one_database(face: Face, url: str) -> None:
    """A URL whose path is more than the number of a database is refused."""
    with pytest.raises(ConfigError, match="path must be the number of a database"):
        face.module.connect(url)


def test_warnings_point_at_the_users_line(
    face: Face, monkeypatch: pytest.MonkeyPatch, redis_url: str
) -> None:
    """The warnings of `connect` name the line that called it."""
    from interlock._links import urls

    monkeypatch.setattr(urls, "_warned", [])
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


async def _refusal(face: Face, url: str) -> str:
    client = face.module.connect(url, command_timeout=1.5)
    try:
        with pytest.raises(ServerUnavailableError) as caught:
            await call(face, client.lock("name").acquire)
    finally:
        await told(client.close())
    return str(caught.value)


async def test_no_connection_is_told_alike(redis_url: str) -> None:
    """Both faces give the same advice for a plain port, a closed one, and a missing socket."""
    from tests.lock.lock_like import Face

    plain = redis_url.replace("redis://", "rediss://")
    for url, advice in {
        plain: "no answer in time; check whether this port speaks TLS",
        "redis://localhost:1": "cannot connect to localhost:1: Connection refused",
        "rediss://localhost:1": "cannot connect to localhost:1: Connection refused",
        "unix:///nonexistent": "cannot connect to /nonexistent: No such file or directory",
    }.items():
        texts = [await _refusal(Face(name), url) for name in ("sync", "asyncio")]
        assert texts[0] == texts[1]
        assert advice in texts[0]


async def test_the_event_of_a_loss_is_no_truth_value_in_a_task(redis_url: str) -> None:
    """``if hold.lost`` is an error in a task, too."""
    async with interlock.asyncio.connect(redis_url) as client, client.lock("name") as hold:
        with pytest.raises(TypeError, match="is_set"):
            bool(hold.lost)


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
