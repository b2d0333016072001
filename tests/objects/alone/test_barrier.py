"""The barrier on both faces: who passes, what breaks it, and what is left."""

from __future__ import annotations

import asyncio
import inspect
import signal
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import Kind, stage_of, until

import interlock
from interlock import BrokenBarrierError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer


stage = stage_of(
    Kind(
        "barrier",
        lambda client, name, parties=3, **options: client.barrier(name, parties, **options),
    )
)


PARTIES = "interlock_barrier:{name}"
SLACK = 10.0
"""Seconds that a busy machine may take for what is due."""


async def _ask(barrier: Any, what: str) -> Any:
    """Return what a property of *barrier* is."""
    loop = asyncio.get_running_loop()
    if inspect.isawaitable(answer := await loop.run_in_executor(None, getattr, barrier, what)):
        return await answer
    return answer


async def _arrive(stage: Stage, barrier: Any, waiting: int, **options: Any) -> asyncio.Task[Any]:
    """Return a wait that has arrived as the one with the number *waiting*."""
    task = asyncio.create_task(stage.owner().do(barrier.wait, **options))

    async def arrived() -> bool:
        return await _ask(barrier, "n_waiting") == waiting

    await until(arrived, 20, "it has arrived")
    return task


@pytest.mark.parametrize("how", ["freeze", "cut"])
@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_a_dead_party_breaks_it(stage: Stage, proxy: FaultProxy, how: str) -> None:
    """A party that is frozen or cut off breaks the barrier within its lease; until then it is renewed."""
    code = """
        with interlock.connect(url, lease=3) as client:
            client.barrier("name", 3).wait()
    """
    barrier = stage.lock(stage.client(lease=3))
    with Child(code, proxy.url()) as child:

        async def arrived() -> bool:
            return await _ask(barrier, "n_waiting") == 1

        await until(arrived, 20, "the child waits")
        waiting = await _arrive(stage, barrier, 2)
        ends = stage.redis.zscore(PARTIES, first := stage.redis.zrange(PARTIES, 0, 0)[0])

        def renewed() -> bool:
            return (stage.redis.zscore(PARTIES, first) or ends) > ends

        await until(renewed, 20, "it is renewed")
        died = time.monotonic()
        if how == "freeze":
            child.signal(signal.SIGSTOP)
        else:
            proxy.stop_accepting()
            proxy.disconnect()
        with pytest.raises(BrokenBarrierError):
            await asyncio.wait_for(waiting, 30)
        assert time.monotonic() - died < 3 + SLACK


def test_an_arrival_ends_in_time(fresh_server: RedisServer) -> None:
    """A party that gets no answer to its arrival gives up when its time is up."""
    with interlock.connect(fresh_server.url(), command_timeout=1) as client:
        barrier = client.barrier("name", 2)
        assert barrier.n_waiting == 0
        fresh_server.pause()
        try:
            began = time.monotonic()
            with pytest.raises(interlock.ServerUnavailableError):
                barrier.wait(timeout=0.5)
            assert time.monotonic() - began < 0.5 + SLACK
        finally:
            fresh_server.resume()


def _check_keys(stage: Stage) -> None:
    """Check that there are keys, and that each is ours and expires."""
    keys = {key.decode() for key in stage.redis.scan_iter()}
    keys -= {key for key in keys if key.startswith("interlock_client")}
    assert keys
    assert all(key.startswith("interlock_") for key in keys)
    assert all(0 < stage.redis.ttl(key) <= 3700 for key in keys)


async def test_every_key_expires(stage: Stage) -> None:
    """Keys of parties that wait, of a broken barrier and of those who find it broken expire."""
    barrier, owner = stage.lock(stage.client()), stage.owner()
    waiting = await _arrive(stage, barrier, 1)
    _check_keys(stage)
    stage.redis.expire(PARTIES, 30)
    await until(lambda: stage.redis.ttl(PARTIES) > 30, 20, "a look keeps it")
    _check_keys(stage)
    await owner.do(barrier.abort)
    with pytest.raises(BrokenBarrierError):
        await waiting
    _check_keys(stage)
    stage.redis.expire(PARTIES, 30)
    with pytest.raises(BrokenBarrierError):
        await owner.do(barrier.wait)
    _check_keys(stage)
    assert stage.redis.ttl(PARTIES) > 3500, "an hour after its last use it is whole again"


@pytest.mark.parametrize("parties", [0, 1_000_001, 1.0, True])
async def test_bad_numbers(stage: Stage, parties: Any) -> None:
    """A number of parties that cannot be raises before anything is sent."""
    with pytest.raises((ValueError, TypeError), match="parties"):
        stage.lock(stage.client(), parties=parties)
