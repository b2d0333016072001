"""Functions of the wrong kind: a coroutine function where nobody awaits, and a plain one."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import pytest
from tests.faces.face_calls import call

import interlock.asyncio
from interlock import ClosedError, connect
from interlock._links.resp import ReplyError
from interlock.inspection.service import code_of

if TYPE_CHECKING:
    from collections.abc import AsyncIterator

    from tests.lock.lock_like import Face
    from tests.support.servers import RedisServer

REFUSED = "is a coroutine function, which nobody would await here: give a plain function"


async def _later(*_: object) -> None:
    raise AssertionError("nobody calls it")


def _starts_later(*_: object) -> object:
    return _later()


@pytest.fixture
async def client(face: Face, fresh_server: RedisServer) -> AsyncIterator[Any]:
    """Give a client of each face in turn."""
    made = face.module.connect(fresh_server.url())
    yield made
    await call(face, made.close)


def test_threads_await_nothing(redis_url: str) -> None:
    """A coroutine function would do nothing as a callback, and run without the lock elsewhere."""
    with connect(redis_url) as client:
        election, lock = client.election("leader"), client.lock("name")
        with lock as hold:
            for give in (
                hold.on_lost,
                election.observe,
                election.run,
            ):
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
            await client.election("leader").run(cast("Any", print))


async def test_what_a_barrier_tells_has_no_truth_value(redis_url: str) -> None:
    """`if barrier.broken:` without `await` is an error, not always true."""
    async with interlock.asyncio.connect(redis_url) as client:
        barrier = client.barrier("name", 2)
        for name in ("broken", "n_waiting"):
            with pytest.raises(TypeError, match=f"^{name} has not run yet"):
                _ = bool(getattr(barrier, name))
        assert await barrier.broken is False
        assert await barrier.n_waiting == 0


async def test_nobody_observes_with_a_closed_client(face: Face, client: Any) -> None:
    """An observer of a closed client would never tell anything: it is an error at once."""
    election = client.election("name")
    await call(face, client.close)
    with pytest.raises(ClosedError):
        election.observe(print)


def test_a_right_that_a_script_lacks_is_known() -> None:
    """Before Valkey 7.2 a script's missing right has the code ERR."""
    text = "ERR The user executing the script can't run this command or subcommand script: 1"
    assert code_of(ReplyError(text)) == "NOPERM"
    assert code_of(ReplyError("NOSCRIPT No matching script")) == "NOSCRIPT"
    assert code_of(b"text") == ""
