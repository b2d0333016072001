"""Functions of the wrong kind: a coroutine function where nobody awaits, and a plain one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any, cast

import pytest
from tests.faces.face_calls import call
from tests.objects.awaited import Face
from tests.support.servers import RedisServer

import interlock.asyncio
from interlock import connect

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
