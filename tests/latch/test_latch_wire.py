"""What goes over the wire of a latch, and what becomes of it when replies are lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, get_args

import pytest
from tests.lock.interrupting import Moment, Points
from tests.lock.lock_like import until
from tests.support.faults import FAULTS
from tests.support.proxy import (
    command,
    drop_request,
)

import interlock.asyncio
from interlock import ServerUnavailableError

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage
    from tests.support.proxy import Action, FaultProxy
    from tests.support.servers import RedisServer

OURS = ("redisson_unlock_latch", "interlock_latch_")


async def test_the_conversation_is_redissons(stage: Stage, server: RedisServer) -> None:
    """The count is a string, deleted at 0; set and delete announce 1, and the opening 0."""
    owner, latch = stage.owner(), stage.lock(stage.client())
    await owner.do(latch.count)
    with server.client() as watcher, watcher.monitor() as monitor:
        await owner.do(latch.try_set_count, 2)
        await owner.do(latch.try_set_count, 3)
        await owner.do(latch.count_down)
        await owner.do(latch.count_down)
        await owner.do(latch.count_down)
        await owner.do(latch.try_set_count, 1)
        await owner.do(latch.delete)
        await owner.do(latch.delete)
        stage.redis.echo("the end")
        heard: list[str] = []
        while not (line := monitor.next_command()["command"]).endswith("the end"):
            heard.append(line.lower())
    channel = "redisson_countdownlatch__channel__{name}"
    assert [
        line
        for line in heard
        if line.startswith(("set", "decr", "del", "publish"))
        and not any(each in line for each in OURS)
    ] == [
        "set name 2 nx",
        f"publish {channel} 1",
        "set name 3 nx",
        "decr name",
        "decr name",
        "del name",
        f"publish {channel} 0",
        "set name 1 nx",
        f"publish {channel} 1",
        "del name",
        f"publish {channel} 1",
    ]


@pytest.mark.parametrize("name", ["name", "{tag}name"])
async def test_what_is_left(stage: Stage, name: str) -> None:
    """An opened latch leaves only notes that expire; its channel has braces around any name."""
    owner, latch = stage.owner(), stage.lock(stage.client(), name)
    channel = f"redisson_countdownlatch__channel__{{{name}}}".encode()
    await owner.do(latch.try_set_count, 1)
    assert stage.redis.get(name) == b"1"
    assert stage.redis.ttl(name) == -1
    waiting = asyncio.create_task(stage.owner().do(latch.wait))
    await until(lambda: stage.redis.pubsub_channels() == [channel], 5, "it waits")
    await owner.do(latch.count_down)
    await waiting
    keys = [key.decode() for key in stage.redis.scan_iter()]
    assert all(key.startswith(OURS) for key in keys)
    assert all(0 < stage.redis.ttl(key) <= 64 for key in keys)


async def test_uncontended_is_one_round_trip_each(stage: Stage, proxy: FaultProxy) -> None:
    """Setting, counting down, waiting for an open latch and deleting are one EVALSHA each."""
    owner, latch = stage.owner(), stage.lock(stage.client(proxy.url()))
    await owner.do(latch.count)
    proxy.clear_record()
    await owner.do(latch.try_set_count, 1)
    await owner.do(latch.count_down)
    await owner.do(latch.wait)
    await owner.do(latch.delete)
    assert [request.args[0] for request in proxy.record] == [b"EVALSHA"] * 4


@pytest.mark.parametrize("how", ["opens", "deletes"])
async def test_java_ends_it(stage: Stage, how: str) -> None:
    """Java's count-down to 0 wakes a waiter at once.

    Java's deletion leaves no note, so the waiter takes it for an opening.
    """
    stage.redis.set("name", 1)
    waiting = asyncio.create_task(stage.owner().do(stage.lock(stage.client(poll_cap=60)).wait))
    await until(stage.redis.pubsub_channels, 5, "it waits")
    stage.redis.delete("name")
    channel = "redisson_countdownlatch__channel__{name}"
    stage.redis.publish(channel, "0" if how == "opens" else "1")
    assert await asyncio.wait_for(waiting, 20) is True


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
async def test_a_call_counts_once(stage: Stage, proxy: FaultProxy, fault: Action) -> None:
    """Whatever happens to a request or reply, setting, counting down and deleting happen once."""
    client = stage.client(proxy.url(), command_timeout=0.8)
    owner, latch = stage.owner(), stage.lock(client)
    await owner.do(latch.count)

    async def once(call: Any, *arguments: Any) -> Any:
        proxy.clear_rules()
        proxy.on_request(command("EVALSHA", nth=1), fault)
        return await owner.do(call, *arguments)

    assert await once(latch.try_set_count, 5) is True
    await once(latch.count_down)
    assert stage.redis.get("name") == b"4"
    assert await once(latch.delete) is True
    assert stage.redis.exists("name") == 0


async def test_an_outage_that_is_too_long(stage: Stage, proxy: FaultProxy) -> None:
    """Without any reply a count-down raises; when the server is back, it has been done once."""
    client = stage.client(proxy.url(), command_timeout=0.8, outage_timeout=1)
    owner, latch = stage.owner(), stage.lock(client)
    stage.redis.set("name", 5)
    await owner.do(latch.count)
    proxy.on_request(command("EVALSHA"), drop_request)
    with pytest.raises(ServerUnavailableError):
        await owner.do(latch.count_down)
    assert stage.redis.get("name") == b"5"
    proxy.clear_rules()
    await until(lambda: stage.redis.get("name") == b"4", 5, "it was carried through")
    await asyncio.sleep(0.5)  # what comes late has come
    assert stage.redis.get("name") == b"4"


@pytest.mark.parametrize("moment", get_args(Moment))
async def test_cancelled_at_every_wait(
    redis_url: str, redis_client: redis.Redis, moment: Moment
) -> None:
    """A count-down that is cancelled wherever it waits is carried through, once."""
    for at in range(50):
        redis_client.set("name", 5)
        async with interlock.asyncio.connect(redis_url) as client:
            latch, points = client.count_down_latch("name"), Points(at, moment)
            await latch.count()

            async def run(points: Points = points, latch: Any = latch) -> None:
                await points.run(latch.count_down())

            task = asyncio.create_task(run())
            await asyncio.wait({task}, timeout=10)
            assert task.cancelled() == points.reached
            assert redis_client.get("name") == b"4", f"cancelled at {at}"
        if not points.reached:
            break
    assert 0 < at < 49
