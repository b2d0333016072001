"""The server is away: calls end in time, valid holds live on, and losses are reported.

It refuses connections or stands still.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.awaited import until
from tests.support.faults import command, delay

from interlock import AcquireTimeoutError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.objects.awaited import Owner, Stage
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer

NOISE = 5.0
"""Seconds by which a call may end late on a machine that stalls; 0.25 is what is promised."""
COMMAND_TIMEOUT = 0.5


class Outage:
    """A server that is away in one of two ways."""

    def __init__(self, kind: str, server: RedisServer) -> None:
        self.kind = kind
        self._server = server

    def begin(self) -> None:
        if self.kind == "refused":
            self._server.kill()
        else:
            self._server.pause()

    def end(self) -> None:
        """Bring it back; a killed server has lost everything."""
        if self.kind == "refused":
            self._server.restart()
        else:
            self._server.resume()


@pytest.fixture(params=["refused", "stopped"])
def outage(request: pytest.FixtureRequest, fresh_server: RedisServer) -> Outage:
    return Outage(request.param, fresh_server)


async def _timed(owner: Owner, call: Callable[..., Any], *args: Any, **kwargs: Any) -> float:
    started = time.monotonic()
    with contextlib.suppress(ServerUnavailableError, AcquireTimeoutError):
        assert not await owner.do(call, *args, **kwargs)
    return time.monotonic() - started


async def _used(own: Stage, **options: Any) -> tuple[Any, Owner]:
    """Return a lock of a client that has its connections, and its owner."""
    lock, owner = own.client(**options).lock("name"), own.owner()
    await owner.do(lock.acquire)
    await owner.do(lock.release)
    return lock, owner


@pytest.mark.parametrize("timeout", [0, 3])
async def test_a_slow_network(stage: Stage, proxy: FaultProxy, timeout: float) -> None:
    """A try succeeds however long the round trip is, up to the command time-out."""
    lock, owner = await _used(stage)
    proxy.on_request(command("EVALSHA"), delay(0.2))
    assert await owner.do(lock.acquire, timeout=timeout)
    assert await owner.do(lock.acquire, timeout=timeout)
    other = stage.lock(stage.client())
    assert not await stage.owner().do(other.acquire, timeout=timeout)
    await owner.do(lock.release)
    await owner.do(lock.release)
    semaphore = stage.client().semaphore("permits")
    assert await owner.do(semaphore.try_set_permits, 1)
    assert await owner.do(semaphore.acquire, timeout=timeout)


@pytest.mark.parametrize("timeout", [0, 0.4])
async def test_an_acquire_ends_in_time(own: Stage, outage: Outage, timeout: float) -> None:
    """Any acquire ends a command time-out after its time is up, if the server stands still.

    If it refuses, the acquire ends when its time is up.
    """
    lock, owner = await _used(own, command_timeout=COMMAND_TIMEOUT)
    patient = own.client(command_timeout=COMMAND_TIMEOUT).lock("name", timeout=timeout)
    outage.begin()
    took = [
        await _timed(owner, lock.acquire, timeout=timeout),
        await _timed(owner, lock.acquire, timeout=timeout),
        await _timed(owner, own.face.enter, patient),
    ]
    outage.end()
    print(f"late by: {max(took) - timeout:.3f} s")
    late = COMMAND_TIMEOUT if outage.kind == "stopped" else 0.0
    assert max(took) < timeout + late + NOISE
    await until(lambda: not own.redis.exists("name"), 10, "nothing is left of them")


async def test_an_outage_is_sat_out(own: Stage, outage: Outage) -> None:
    """An acquire, a wait and a release succeed after an outage shorter than their time."""
    lock, owner = await _used(own, command_timeout=0.5)
    waiter = own.owner()
    await owner.do(lock.acquire)
    waiting = asyncio.create_task(waiter.do(lock.acquire, timeout=10))
    await own.waits()
    outage.begin()
    releasing = asyncio.create_task(owner.do(lock.release))
    taking = asyncio.create_task(own.owner().do(own.client().lock("other").acquire, timeout=10))
    await asyncio.sleep(0.7)  # the outage outlasts a command time-out
    assert not waiting.done()
    assert not releasing.done()
    outage.end()
    assert await waiting
    await releasing
    if outage.kind == "stopped":
        assert await taking
    else:
        with pytest.raises(ServerUnavailableError):  # its client had never been there before
            await taking
    await waiter.do(lock.release)


async def test_a_timeout_of_its_own_may_outlast_outage_timeout(own: Stage, outage: Outage) -> None:
    """An acquire and a wait with a longer timeout sit out what ends an acquire without one."""
    client = own.client(command_timeout=0.3, outage_timeout=0.3)
    taker, waiter, other = own.owner(), own.owner(), own.owner()
    free = client.lock("free")
    await taker.do(free.acquire)
    await taker.do(free.release)
    own.redis.hset("name", "somebody", 1)
    waiting = asyncio.create_task(waiter.do(client.lock("name").acquire, timeout=30))
    await own.waits()
    outage.begin()
    taking = asyncio.create_task(taker.do(free.acquire, timeout=30))
    with pytest.raises(ServerUnavailableError):
        await other.do(client.lock("other").acquire)
    await asyncio.sleep(1.0)  # the waiter has missed its connection, and asks
    assert not taking.done()
    assert not waiting.done()
    outage.end()
    own.redis.delete("name")
    assert await taking
    assert await waiting
