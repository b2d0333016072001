"""The count-down latch: who waits, who goes on, and when, on both faces."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import Kind, stage_of, until
from tests.support.cards import own_keys, waited_channels

from interlock import MisuseWarning

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage

stage = stage_of(
    Kind("latch", lambda client, name, **options: client.count_down_latch(name, **options))
)


async def test_a_count_of_java_is_told_once(stage: Stage) -> None:
    """A count that Java has set may be what a program names; less than is left is told."""
    owner = stage.owner()
    stage.redis.set("name", 4)
    assert await owner.do(stage.lock(stage.client(), count=9).count) == 4
    with pytest.warns(MisuseWarning, match="set up with the count 4, not 1"):
        assert await owner.do(stage.lock(stage.client(), count=1).count) == 4


@pytest.mark.parametrize("count", [0, 2**53 + 1, 1.0, True])
async def test_bad_counts_change_nothing(stage: Stage, count: Any) -> None:
    """A count that cannot be raises a clear error before anything is sent."""
    latch = stage.lock(stage.client())
    with pytest.raises((ValueError, TypeError), match="count"):
        await stage.owner().do(latch.try_set_count, count)
    assert stage.redis.keys() == []


OURS = ("redisson_unlock_latch", "interlock_latch_")


@pytest.mark.parametrize("name", ["name", "{tag}name"])
async def test_what_is_left(stage: Stage, name: str) -> None:
    """An opened latch leaves only notes that expire; its channel has braces around any name."""
    owner, latch = stage.owner(), stage.lock(stage.client(), name)
    channel = f"redisson_countdownlatch__channel__{{{name}}}"
    await owner.do(latch.try_set_count, 1)
    assert stage.redis.get(name) == b"1"
    assert stage.redis.ttl(name) == -1
    waiting = asyncio.create_task(stage.owner().do(latch.wait))
    await until(lambda: waited_channels(stage.redis) == [channel], 5, "it waits")
    await owner.do(latch.count_down)
    await waiting
    keys = own_keys(stage.redis)
    assert all(key.startswith(OURS) for key in keys)
    assert all(0 < stage.redis.ttl(key) <= 64 for key in keys)


@pytest.mark.parametrize("how", ["opens", "deletes"])
async def test_java_ends_it(stage: Stage, how: str) -> None:
    """Java's count-down to 0 wakes a waiter at once.

    Java's deletion leaves no note, so the waiter takes it for an opening.
    """
    stage.redis.set("name", 1)
    waiting = asyncio.create_task(stage.owner().do(stage.lock(stage.client()).wait))
    await until(stage.redis.pubsub_channels, 5, "it waits")
    stage.redis.delete("name")
    channel = "redisson_countdownlatch__channel__{name}"
    stage.redis.publish(channel, "0" if how == "opens" else "1")
    assert await asyncio.wait_for(waiting, 20) is True
