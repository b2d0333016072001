"""A program that blocks its event loop while it connects is not told that the server is silent."""

from __future__ import annotations

import asyncio
import socket
import threading
from typing import Any

import pytest
from tests.support.patience import let_others_run

import interlock
import interlock.asyncio
from interlock import ServerUnavailableError

TIME_LIMIT = 0.5
"""Seconds for connecting."""


def stand_still(seconds: float) -> None:
    """Block this thread, as a program does that loads much."""
    assert not threading.Event().wait(seconds)


@pytest.mark.parametrize("turns", [1, 2, 4, 8])
async def test_a_loop_that_stood_still_asks_again(redis_url: str, turns: int) -> None:
    """The loop stands still for longer than the time limit, and the first acquire succeeds."""
    async with interlock.asyncio.connect(redis_url, command_timeout=TIME_LIMIT) as client:
        lock = client.lock("name", timeout=30)
        acquiring = asyncio.create_task(lock.__aenter__())
        await let_others_run(turns)
        stand_still(3 * TIME_LIMIT)
        assert await acquiring
        assert await lock.locked()


async def test_a_silent_server_is_given_up() -> None:
    """After a stall the client tells that there is no answer."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}"
        limits: Any = {"command_timeout": TIME_LIMIT, "outage_timeout": 2 * TIME_LIMIT}
        async with interlock.asyncio.connect(url, **limits) as client:

            async def acquire() -> None:
                await client.lock("name").acquire()

            acquiring = asyncio.create_task(acquire())
            await let_others_run(4)
            stand_still(3 * TIME_LIMIT)
            with pytest.raises(ServerUnavailableError, match=r"no reply|no answer"):
                await asyncio.wait_for(acquiring, 60)


async def test_a_silent_server_is_given_up_by_all_who_wait_for_replicas() -> None:
    """They wait at the same time for the few connections, and not one after another."""
    with socket.create_server(("127.0.0.1", 0)) as silent:
        url = f"redis://127.0.0.1:{silent.getsockname()[1]}?max_connections=1"
        limits: Any = {"command_timeout": TIME_LIMIT, "outage_timeout": TIME_LIMIT}
        replicas = interlock.required(1, TIME_LIMIT)
        async with interlock.asyncio.connect(url, replicas=replicas, **limits) as client:

            async def acquire(number: int) -> None:
                await client.lock(f"name {number}").acquire()

            acquiring = [acquire(number) for number in range(30)]
            async with asyncio.timeout(20 * TIME_LIMIT):
                errors = await asyncio.gather(*acquiring, return_exceptions=True)
    assert {type(error) for error in errors} == {ServerUnavailableError}
