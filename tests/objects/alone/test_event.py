"""The event on both faces: who waits, who goes on, what is left, and what lost replies change."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import Kind, stage_of, until
from tests.support.cards import own_keys, waited_channels

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy

stage = stage_of(Kind("event", lambda client, name: client.event(name)))


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


async def test_a_setting_is_not_missed(stage: Stage, proxy: FaultProxy) -> None:
    """Without any message a waiter goes on within the poll cap, though it is cleared at once."""
    proxy.drop_messages = True
    owner, event = stage.owner(), stage.lock(stage.client())
    client = stage.client(proxy.url())
    waiting = [await _waiting(stage, stage.lock(client)) for _ in range(3)]
    began = time.monotonic()
    await owner.do(event.set)
    await owner.do(event.clear)
    assert await asyncio.wait_for(asyncio.gather(*waiting), 20) == [True] * 3
    assert time.monotonic() - began < 1 + SLACK
    again = await _waiting(stage, stage.lock(client), timeout=2.5)
    assert await again is False, "an earlier setting does not let it go on"


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
