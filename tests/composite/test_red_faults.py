"""The red lock when servers fail: a minority costs only a time-out, a majority is reported."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from tests.objects.awaited import until

from interlock.errors import QuorumError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from tests.composite.table import Table
    from tests.support.servers import RedisServer

FIVE = pytest.mark.parametrize("own_servers", [5], indirect=True)


def _kill(server: RedisServer) -> None:
    server.kill()


def _pause(server: RedisServer) -> None:
    server.pause()


down = pytest.mark.parametrize("fail", [_kill, _pause], ids=["refused", "paused"])
PATIENCE = 0.75
"""Seconds that a server is given to answer (see the fixture `patience`)."""
SLACK = 6.0
"""Seconds for which a machine with more to do than it can may keep everybody waiting."""


def _revive(servers: Sequence[RedisServer]) -> None:
    for server in servers:
        if server.alive:
            server.resume()
        else:
            server.restart()


@FIVE
@down
async def test_a_minority_that_is_down(own: Table, fail: Callable[[RedisServer], None]) -> None:
    """Two of five servers that are down cost one time-out together, and no error."""
    clients = own.clients()
    lock, owner = own.red(clients), own.owner()
    await owner.do(lock.acquire)
    await owner.do(lock.release)
    for server in own.servers[:2]:
        fail(server)
    took: list[float] = []
    for _ in range(2):
        began = time.monotonic()
        assert await owner.do(lock.acquire, timeout=0)
        assert await owner.do(lock.acquire, timeout=0)
        hold = await owner.do(lambda: lock.hold)
        assert hold.remaining > 29 - 2 * PATIENCE - SLACK
        assert await owner.do(lock.locked) is True
        assert await owner.do(lock.hold_count) == 2
        await owner.do(lock.extend, 60)
        await owner.do(lock.release)
        await owner.do(lock.release)
        took.append(time.monotonic() - began)
        assert await owner.do(lock.locked) is False
        assert await owner.do(lock.force_release) is False
    print(f"took {took}")
    assert min(took) < 4 * PATIENCE, "two calls wait, each for both servers at once"
    _revive(own.servers[:2])
    await until(lambda: own.stored() == [[]] * 5, 10, "nothing is left where nobody answered")


@down
async def test_a_majority_that_is_down(own: Table, fail: Callable[[RedisServer], None]) -> None:
    """Without a quorum, QuorumError tells what is wrong with each failed server.

    Grants of the other servers are given back.
    """
    clients = own.clients(outage_timeout=0.5)
    lock, owner = own.red(clients), own.owner()
    await owner.do(lock.acquire)
    await owner.do(lock.release)
    for server in own.servers[:2]:
        fail(server)
    for limit in ({"timeout": 0}, {"timeout": 0.3}, {}):
        with pytest.raises(QuorumError) as caught:
            await owner.do(lock.acquire, **limit)
        assert len(caught.value.causes) == 2
        for server in own.servers[:2]:
            where = f"name at 127.0.0.1:{server.port}"
            assert isinstance(caught.value.causes[where], ServerUnavailableError)
        await until(lambda: own.keys_of(own.servers[2]) == [], 10, "it is given back")
    calls = (lock.locked, lock.remaining, lock.force_release)
    errors = await asyncio.gather(*(own.owner().do(call) for call in calls), return_exceptions=True)
    assert [type(error) for error in errors] == [QuorumError] * 3
    _revive(own.servers[:2])


async def test_an_outage_is_sat_out(own: Table) -> None:
    """An acquire waits while a majority is away, and goes on when it is back."""
    clients = own.clients()
    lock, owner = own.red(clients), own.owner()
    await owner.do(lock.acquire)
    await owner.do(lock.release)
    for server in own.servers[:2]:
        server.kill()
    waiting = asyncio.create_task(owner.do(lock.acquire, timeout=30))
    await asyncio.sleep(0.5)  # a majority is away meanwhile
    assert not waiting.done()
    own.servers[0].restart()
    assert await waiting
    assert own.stored() == [["name"], ["name"]]
    await owner.do(lock.release)


async def test_a_release_without_a_majority(own: Table) -> None:
    """A release that misses too many servers raises, and the background finishes it."""
    clients = own.clients(lease=30)
    lock, owner = own.red(clients), own.owner()
    await owner.do(lock.acquire)
    for server in own.servers[:2]:
        server.pause()
    with pytest.raises(ServerUnavailableError):
        await owner.do(lock.release)
    assert own.keys_of(own.servers[2]) == []
    for server in own.servers[:2]:
        server.resume()
    await until(lambda: own.stored() == [[], [], []], 10, "it is free everywhere")


async def test_a_minority_that_cannot_be_used(table: Table) -> None:
    """A server whose key holds something else counts as down; two of three raise at once."""
    clients = table.clients()
    lock, owner = table.red(clients), table.owner()
    table.servers[0].execute("SET", "name", "text")
    assert await owner.do(lock.acquire)
    await owner.do(lock.release)
    table.servers[1].execute("SET", "name", "text")
    with pytest.raises(QuorumError) as caught:
        await asyncio.wait_for(owner.do(lock.acquire), 10)
    assert len(caught.value.causes) == 2
    free = [["name"], ["name"], []]
    await until(lambda: table.stored() == free, 10, "it is given back")
