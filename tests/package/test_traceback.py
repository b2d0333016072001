"""Tracebacks tell a user's own frames, and the causes as text."""

from __future__ import annotations

import asyncio
import traceback
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest
from tests.support.address import free_port

import interlock.asyncio
from interlock import InterlockError


def _fail(url: str) -> InterlockError:
    with (
        interlock.connect(url) as client,
        pytest.raises(interlock.ServerUnavailableError) as caught,
    ):
        client.lock("x").acquire()
    return caught.value


def test_no_frame_of_redis_py_is_shown() -> None:
    """Without a server, the story is a user's frame, two of ours and the message."""
    error = _fail(f"redis://127.0.0.1:{free_port()}")
    text = "".join(traceback.format_exception(error))
    assert "redis/connection.py" not in text
    assert text.count("/src/interlock/") <= 2
    assert error.__cause__ is None


def test_the_error_of_a_users_code_stays() -> None:
    """What a provider of credentials raised is the cause, with its own frames."""

    def fail() -> tuple[str, str]:
        raise KeyError("no token")

    with (
        interlock.connect(f"redis://127.0.0.1:{free_port()}", credentials=fail) as client,
        pytest.raises(interlock.ServerUnavailableError) as caught,
    ):
        client.lock("x").acquire(timeout=0)
    assert isinstance(caught.value.__cause__, KeyError)


def _enters(block: Callable[[Any], Any]) -> Callable[[Any], Awaitable[None]]:
    async def enter(client: interlock.asyncio.Client) -> None:
        async with block(client):
            pytest.fail("it was free")

    return enter


async def _waits_for_a_notification(client: interlock.asyncio.Client) -> None:
    condition = client.condition(client.lock("of its own"))
    async with condition:
        await condition.wait()


WAITS: dict[str, Callable[[Any], Awaitable[object]]] = {
    "lock": _enters(lambda client: client.lock("x")),
    "semaphore": _enters(lambda client: client.semaphore("none", permits=0)),
    "permit": lambda client: client.leased_semaphore("permit").acquire(),
    "limited": _enters(lambda client: client.limited("one", 1)),
    "barrier": lambda client: client.barrier("barrier", 2).wait(),
    "condition": _waits_for_a_notification,
}


@pytest.mark.parametrize("name", WAITS)
async def test_a_cancelled_wait_shows_no_frame_of_ours(name: str, redis_url: str) -> None:
    """What a cancellation shows of a wait is the user's line that waits."""
    async with AsyncExitStack() as stack:
        other = await stack.enter_async_context(interlock.asyncio.connect(redis_url))
        client = await stack.enter_async_context(interlock.asyncio.connect(redis_url))
        await stack.enter_async_context(other.lock("x"))
        await stack.enter_async_context(other.limited("one", 1))
        await stack.enter_async_context(other.leased_semaphore("permit", permits=1).acquire())
        with pytest.raises(TimeoutError) as caught:
            async with asyncio.timeout(0.1):
                await WAITS[name](client)
    assert isinstance(caught.value.__cause__, asyncio.CancelledError)
    trace = traceback.extract_tb(caught.value.__cause__.__traceback__)
    assert [each for each in trace if "/src/interlock/" in each.filename] == []


async def _leaves_lost(client: interlock.asyncio.Client) -> None:
    async with client.lock("lost"):
        await client.force_release("lost", holder=client.holds()[0].holder, reason="test")


async def _leaves_a_try_lost(client: interlock.asyncio.Client) -> None:
    async with client.try_lock("lost") as hold:
        assert hold
        await client.force_release("lost", holder=client.holds()[0].holder, reason="test")


REFUSALS: dict[str, Callable[[Any], Awaitable[object]]] = {
    "timeout": _enters(lambda client: client.lock("x", timeout=0)),
    "release": lambda client: client.lock("x").release(),
    "lost": _leaves_lost,
    "try-lost": _leaves_a_try_lost,
}


@pytest.mark.parametrize("name", REFUSALS)
async def test_a_refused_or_lost_lock_shows_no_frame_of_ours(name: str, redis_url: str) -> None:
    """A timeout, a wrong release and a loss that a block's end tells end at the user's line."""
    async with (
        interlock.asyncio.connect(redis_url) as other,
        interlock.asyncio.connect(redis_url) as client,
        other.lock("x"),
    ):
        with pytest.raises(InterlockError) as caught:
            await REFUSALS[name](client)
    trace = traceback.extract_tb(caught.value.__traceback__)
    assert [each for each in trace if "/src/interlock/" in each.filename] == []
