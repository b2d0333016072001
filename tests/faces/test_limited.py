"""At most n at once: blocks, calls, numbers that change, on both faces."""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import Kind, Stage

import interlock.asyncio
from interlock import AcquireTimeoutError, ConfigError, NotHeldError
from interlock._drivers.block import ByHand

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    import redis
    from tests.lock.lock_like import Face

LIMITED = Kind("limited", lambda client, name, n=2, **options: client.limited(name, n, **options))


@pytest.fixture
async def stage(
    face: Face, loaded: redis.Redis, redis_url: str, patient: None
) -> AsyncIterator[Stage]:
    """Give the limit on each face in turn."""
    set_up = Stage(face, LIMITED, redis_url, loaded)
    yield set_up
    await set_up.end()


def free(stage: Stage) -> int:
    """Return the number of free permits, as the server and Java see it."""
    return int(stage.redis.get("name") or 0)


async def test_blocks_of_one_object_are_told_apart(stage: Stage) -> None:
    """Each block of one object has a permit of its own, and any owner may leave it."""
    owner, other, limit = stage.owner(), stage.owner(), stage.lock(stage.client(), timeout=0)
    async with contextlib.AsyncExitStack() as blocks:
        first = await _open(stage, owner, limit, blocks)
        second = await _open(stage, other, limit, blocks)
        assert first.ids != second.ids
        assert free(stage) == 0
        assert await owner.do(limit.running) == 2
        with pytest.raises(AcquireTimeoutError):
            await owner.do(stage.face.enter, limit)
    assert free(stage) == 2
    assert await owner.do(limit.available) == 2


async def _open(stage: Stage, owner: Any, limit: Any, blocks: contextlib.AsyncExitStack) -> Any:
    # A with statement: the exit is looked up first. It is left by another owner.
    leave = limit.__aexit__ if stage.face.is_async else limit.__exit__
    permit = await owner.do(stage.face.enter, limit)
    blocks.push_async_callback(stage.owner().do, leave, None, None, None)
    return permit


async def test_blocks_by_hand(stage: Stage) -> None:
    """The special methods can be called by hand; one leave too many raises NotHeldError."""
    owner, limit = stage.owner(), stage.lock(stage.client())
    await owner.do(stage.face.enter, limit)
    await owner.do(stage.face.leave, limit)
    assert free(stage) == 2
    with pytest.raises(NotHeldError):
        await owner.do(stage.face.leave, limit)


class Struck(BaseException):
    """What strikes like a Ctrl-C."""


def strike(*_: Any) -> Any:
    """Strike."""
    raise Struck


@pytest.mark.parametrize("how", ["block", "call"])
async def test_an_interruption_before_the_block_begins(
    stage: Stage, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    """If a Ctrl-C comes when the permit is there and its block not yet, the permit comes back."""
    owner, limit = stage.owner(), stage.lock(stage.client())
    await owner.do((await owner.do(limit.acquire)).release)
    if how == "block":
        monkeypatch.setattr(limit, "_by_hand", type("Hit", (ByHand,), {"enter": strike})())
        enter = functools.partial(stage.face.enter, limit)
    else:
        kind = interlock.asyncio.Permit if stage.face.is_async else interlock.Permit
        monkeypatch.setattr(kind, "_keep_for", strike)
        enter = limit(_nothing_async if stage.face.is_async else _nothing)
    # A task of its own would take no such exception to who waits for it.
    with pytest.raises(Struck):
        await (enter() if stage.face.is_async else owner.do(enter))
    assert free(stage) == 2


def _nothing() -> None:
    pass


async def _nothing_async() -> None:
    pass


async def test_at_most_n_calls_run(stage: Stage) -> None:
    """Of many decorated calls of two clients at most n run, and all of them do in the end."""
    running, most, done = 0, 0, 0

    async def work(model: str) -> None:
        nonlocal running, most, done
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.01)  # the others come meanwhile
        running -= 1
        done += 1

    loop = asyncio.get_running_loop()

    def work_in_thread(model: str) -> None:
        asyncio.run_coroutine_threadsafe(work(model), loop).result()

    function = work if stage.face.is_async else work_in_thread
    clients = [stage.client(), stage.client()]
    calls = [stage.lock(client, "{model}", n=3)(function) for client in clients * 6]
    await asyncio.gather(*(stage.owner().do(call, model="name") for call in calls))
    assert (most, done) == (3, 12)
    assert free(stage) == 3


async def test_the_number_in_the_code_wins_once(
    stage: Stage, caplog: pytest.LogCaptureFixture
) -> None:
    """A client with another number sets it and logs that; a client that was there keeps quiet."""
    owner, old = stage.owner(), stage.lock(stage.client(), n=2)
    with caplog.at_level(logging.WARNING, "interlock"):
        permit = await owner.do(old.acquire)
        assert not caplog.records
        new = stage.lock(stage.client(), n=5)
        await owner.do((await owner.do(new.acquire)).release)
    (record,) = caplog.records
    assert record.getMessage() == "'name' had 2 permits, and has 5 now, as this program asks for"
    assert (await owner.do(old.available), await owner.do(old.running)) == (4, 1)
    await owner.do((await owner.do(old.acquire)).release)
    await owner.do(permit.release)
    assert free(stage) == 5


async def test_a_number_that_is_set_at_run_time_stays(stage: Stage) -> None:
    """A number that is set by hand is kept by clients that are there, and wakes waiters."""
    owner, limit = stage.owner(), stage.lock(stage.client(poll_cap=30), n=1)
    await owner.do(limit.set_permits, 1)
    permit = await owner.do(limit.acquire)
    waiting = asyncio.ensure_future(stage.owner().do(limit.acquire))
    with pytest.raises(AcquireTimeoutError):
        await stage.owner().do(limit.acquire, timeout=0.2)
    assert not waiting.done()
    await owner.do(limit.set_permits, 2)
    second = await waiting
    assert await owner.do(limit.running) == 2
    for each in (permit, second):
        await owner.do(each.release)
    assert free(stage) == 2
    with pytest.raises(ValueError, match="must be 1 to"):
        await owner.do(limit.set_permits, 0)


async def test_mistakes(stage: Stage) -> None:
    """Wrong arguments raise when the limit is made or entered, and change nothing."""
    client = stage.client()
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="must be 1 to"):
            client.limited("name", wrong)
    with pytest.raises(TypeError):
        client.limited("name", 1.5)
    with pytest.raises(TypeError, match="a name must be a str"):
        client.limited(test_mistakes, 1)
    with pytest.raises(ConfigError):
        client.limited("name", 1, lease=-1)
    with pytest.raises(ValueError, match="timeout"):
        client.limited("name", 1, timeout=-3)
    with pytest.raises(ConfigError, match="model"):
        await stage.owner().do(stage.face.enter, client.limited("{model}", 1))
    assert not stage.redis.exists("name")
