"""The event on both faces: who waits, who goes on, what is left, and what lost replies change."""

from __future__ import annotations

import asyncio
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import until
from tests.support.cards import own_keys, waited_channels

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy

CHANNEL = "interlock_event__channel:{name}"
SLACK = 20.0
"""Seconds that a busy machine may take for what is due."""


async def _waiting(stage: Stage, event: Any, **options: Any) -> asyncio.Task[Any]:
    """Return a wait that has begun and sleeps."""
    task = asyncio.create_task(stage.owner().do(event.wait, **options))
    await until(lambda: waited_channels(stage.redis) == [CHANNEL], 20, "it waits")
    await stage.waits()
    assert not task.done()
    return task


async def test_it_wakes_every_waiter(stage: Stage, redis_url: str) -> None:
    """One setting wakes every waiter of every process, and who comes later does not wait."""
    child = """
        async def main():
            async with interlock.asyncio.connect(url, poll_cap=60) as client:
                event = client.event("name")
                tasks = [asyncio.create_task(event.wait()) for _ in range(5)]
                while waiters(client) < 5:
                    await asyncio.wait(tasks, timeout=0.01)
                say("waits")
                for task in tasks:
                    say(await task)
        asyncio.run(main())
    """
    owner, event = stage.owner(), stage.lock(stage.client())
    assert not await owner.do(event.is_set)
    with ExitStack() as stack:
        children = [stack.enter_context(Child(child, redis_url)) for _ in range(2)]
        assert [each.hear() for each in children] == ["waits", "waits"]
        client = stage.client(poll_cap=60)
        waiting = [await _waiting(stage, stage.lock(client)) for _ in range(10)]
        await owner.do(event.set)
        assert await asyncio.wait_for(asyncio.gather(*waiting), 20) == [True] * 10
        for each in children:
            assert [each.hear() for _ in range(5)] == ["True"] * 5
    assert await owner.do(event.is_set)
    assert await owner.do(event.wait, timeout=0) is True
    await owner.do(event.clear)
    assert not await owner.do(event.is_set)
    assert await owner.do(event.wait, timeout=0) is False


async def test_a_setting_is_not_missed(stage: Stage, proxy: FaultProxy) -> None:
    """Without any message a waiter goes on within the poll cap, though it is cleared at once."""
    proxy.drop_messages = True
    owner, event = stage.owner(), stage.lock(stage.client())
    client = stage.client(proxy.url(), poll_cap=1)
    waiting = [await _waiting(stage, stage.lock(client)) for _ in range(3)]
    began = time.monotonic()
    await owner.do(event.set)
    await owner.do(event.clear)
    assert await asyncio.wait_for(asyncio.gather(*waiting), 20) == [True] * 3
    assert time.monotonic() - began < 1 + SLACK
    again = await _waiting(stage, stage.lock(client), timeout=2.5)
    assert await again is False, "an earlier setting does not let it go on"


async def test_it_outlives_who_set_it(stage: Stage, redis_url: str) -> None:
    """An event stays set when the process that set it is killed."""
    code = """
        with interlock.connect(url) as client:
            client.event("name").set()
            say("set")
            threading.Event().wait()
    """
    with Child(code, redis_url) as child:
        assert child.hear() == "set"
    assert await stage.owner().do(stage.lock(stage.client()).is_set)


@pytest.mark.parametrize("name", ["name", "{tag}name"])
async def test_what_is_left(stage: Stage, name: str) -> None:
    """A set event is one key that stays; of a cleared one only notes are left, which expire."""
    owner, event = stage.owner(), stage.lock(stage.client(), name)
    shown = name if "{" in name else f"{{{name}}}"
    await owner.do(event.set)
    assert stage.redis.get(f"interlock_event:{shown}").startswith(b"set ")
    assert stage.redis.ttl(f"interlock_event:{shown}") == -1
    await owner.do(event.clear)
    keys = {key.decode() for key in stage.redis.scan_iter("*name*")}
    assert own_keys(stage.redis) <= keys
    assert all(key.startswith(("interlock_event:", "interlock_request:")) for key in keys)
    assert all(0 < stage.redis.ttl(key) <= 64 for key in keys)


async def test_one_round_trip_each(stage: Stage, proxy: FaultProxy) -> None:
    """Setting, clearing, asking and waiting for a set event are one EVALSHA each."""
    owner, event = stage.owner(), stage.lock(stage.client(proxy.url(), card=False))
    await owner.do(event.is_set)
    proxy.clear_record()
    for call in (event.set, event.wait, event.is_set, event.clear):
        await owner.do(call)
    assert [each.args[0] for each in proxy.record] == [b"EVALSHA"] * 4
