"""The renewal thread and the other holds survive its own errors, the user's and the server's."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.awaited import renewed, until
from tests.support.cards import own_keys

from interlock import ClosedError, NotHeldError, ServerUnavailableError
from interlock._core.upkeep.watchdog import Watchdog
from interlock._links.pool import Pool

if TYPE_CHECKING:
    from tests.objects.awaited import Stage
    from tests.support.servers import RedisServer

NOISE = 5.0


@pytest.fixture
def reported(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Give what is reported as the exception of a thread is."""
    seen: list[str] = []
    monkeypatch.setattr(threading, "excepthook", lambda args: seen.append(str(args.exc_value)))
    return seen


async def _held(stage: Stage, count: int, **options: Any) -> tuple[list[Any], Any]:
    client, owner = stage.client(**{"renewed": "soon"} | options), stage.owner()
    locks = [client.lock(f"name-{number}") for number in range(count)]
    for lock in locks:
        await owner.do(lock.acquire)
    return locks, owner


async def _kept(locks: list[Any], owner: Any) -> None:
    """Have all of *locks* renewed once more, and release them."""
    await renewed(*[await owner.do(lambda lock=lock: lock.hold) for lock in locks])
    for lock in locks:
        assert await owner.do(lambda lock=lock: bool(lock.hold))
        assert await owner.do(lock.owned)
        await owner.do(lock.release)


@pytest.mark.parametrize("face", ["sync"], indirect=True)
@pytest.mark.parametrize(
    ("place", "step"),
    [(Watchdog, "next_due"), (Watchdog, "due"), (Pool, "batch")],
    ids=lambda value: value if isinstance(value, str) else value.__name__,
)
async def test_an_error_in_one_round(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, reported: list[str], place: type, step: str
) -> None:
    """An exception anywhere in a round is reported, and the next round renews as usual."""
    locks, owner = await _held(stage, 3)
    real = getattr(place, step)
    failures: list[str] = []

    def fail_once(*args: Any, **kwargs: Any) -> Any:
        if not failures:
            failures.append(step)
            raise ZeroDivisionError(step)
        return real(*args, **kwargs)

    monkeypatch.setattr(place, step, fail_once)
    await until(lambda: failures, 10, "a round failed")
    await until(lambda: reported, 10, "it is reported")
    assert reported == [step]
    await _kept(locks, owner)


async def test_a_callback_that_raises(stage: Stage, reported: list[str]) -> None:
    """An on_lost callback's exception is reported; other callbacks run and other holds are kept."""
    locks, owner = await _held(stage, 3)
    lost, told = await owner.do(lambda: locks[0].hold), []

    def fail() -> None:
        raise ZeroDivisionError("the user's own")

    loop_errors: list[str] = []
    if stage.face.is_async:
        asyncio.get_running_loop().set_exception_handler(
            lambda _, context: loop_errors.append(str(context["exception"]))
        )
    for callback in (fail, lambda: told.append("told")):
        await owner.do(lost.on_lost, callback)
    stage.redis.delete("name-0")
    await until(lambda: told, 10, "the second callback is called")
    assert reported + loop_errors == ["the user's own"]
    await _kept(locks[1:], owner)


@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_a_callback_that_hangs(stage: Stage) -> None:
    """While an on_lost callback hangs, other holds are renewed, and their callbacks are called."""
    locks, owner = await _held(stage, 4)
    hang, told = threading.Event(), threading.Event()
    for lock, callback in zip(locks, (hang.wait, told.set), strict=False):
        await owner.do((await owner.do(lambda lock=lock: lock.hold)).on_lost, callback)
    stage.redis.delete("name-0")
    first = await owner.do(lambda: locks[0].hold)
    await until(first.lost.is_set, 10, "the first loss is known")
    stage.redis.delete("name-1")
    await until(told.is_set, 10, "the second callback is called")
    await _kept(locks[2:], owner)
    hang.set()
    await until(lambda: not _callback_threads(), 10, "the threads of the callbacks have ended")


def _callback_threads() -> list[str]:
    return [each.name for each in threading.enumerate() if each.name == "interlock-callback"]


@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_a_callback_that_closes_the_client(stage: Stage) -> None:
    """An on_lost callback may close the client: what is held is released, and nothing hangs."""
    locks, owner = await _held(stage, 3)
    lost, ended = await owner.do(lambda: locks[0].hold), threading.Event()
    (client,) = stage._clients
    await owner.do(lost.on_lost, lambda: (client.close(), ended.set()))
    stage.redis.delete("name-0")
    await until(ended.is_set, 10, "the client is closed")
    assert not own_keys(stage.redis)


# One thread renews for both faces.
@pytest.mark.parametrize("face", ["sync"], indirect=True)
@pytest.mark.parametrize("instead", [None, b"text"], ids=["deleted", "overwritten"])
async def test_one_lost_hold_of_a_batch(stage: Stage, instead: bytes | None) -> None:
    """A hold that is gone is reported and not made anew; the rest of its batch is renewed."""
    locks, owner = await _held(stage, 3)
    lost = await owner.do(lambda: locks[1].hold)
    stage.redis.delete("name-1")
    if instead is not None:
        stage.redis.set("name-1", instead)
    await until(lost.lost.is_set, 10, "the loss is told")
    await _kept([locks[0], locks[2]], owner)
    assert stage.redis.get("name-1") == instead


async def _closed_in(stage: Stage, client: Any) -> tuple[float, BaseException | None]:
    started = time.monotonic()
    try:
        await stage.close(client)
    except ServerUnavailableError as error:
        return time.monotonic() - started, error
    return time.monotonic() - started, None


@pytest.mark.parametrize("kind", ["refused", "stopped"])
async def test_close_while_the_server_is_away(
    own: Stage, fresh_server: RedisServer, kind: str
) -> None:
    """Closing ends in time, and says what it could not release.

    The holds are over in this client. Another close does nothing.
    """
    client, owner = own.client(command_timeout=1.0), own.owner()
    lock = client.lock("name")
    await owner.do(lock.acquire)
    hold = await owner.do(lambda: lock.hold)
    fresh_server.kill() if kind == "refused" else fresh_server.pause()
    took, error = await _closed_in(own, client)
    assert took < 2 * 1.0 + NOISE
    assert error is not None
    assert await _closed_in(own, client) == (pytest.approx(0, abs=NOISE), None)
    assert not hold.valid
    with pytest.raises(ClosedError):
        await owner.do(lock.acquire)
    with pytest.raises((NotHeldError, ClosedError)):
        await owner.do(lock.release)
    fresh_server.restart() if kind == "refused" else fresh_server.resume()


async def test_close_while_a_command_is_under_way(own: Stage, fresh_server: RedisServer) -> None:
    """Its time is that of the releases, too, which go on another connection."""
    client, owner, other = own.client(command_timeout=3.0), own.owner(), own.owner()
    await owner.do(client.lock("name").acquire)
    fresh_server.pause()
    acquiring = asyncio.create_task(other.do(client.lock("other").acquire))
    await asyncio.sleep(0.2)
    took, error = await _closed_in(own, client)
    fresh_server.resume()
    assert took < 3.0 + 1.5
    assert isinstance(error, ServerUnavailableError)
    with pytest.raises((ClosedError, ServerUnavailableError)):
        await acquiring
