"""The red lock when servers fail: a minority costs only a time-out, a majority is reported."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from tests.composite.table import Table
from tests.lock.lock_like import renewed, until

import interlock
from interlock._core.locks import red_lock
from interlock.errors import HoldLostError, QuorumError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

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
@pytest.mark.parametrize(
    ("fail", "warm"),
    [(_kill, True), (_pause, True), (_kill, False)],
    ids=["refused", "paused", "never-there"],
)
async def test_a_minority_that_is_down(
    own: Table, fail: Callable[[RedisServer], None], warm: bool
) -> None:
    """Two of five servers that are down cost one time-out together, and no error."""
    clients = own.clients()
    lock, owner = own.red(clients), own.owner()
    if warm:
        await owner.do(lock.acquire)
        await owner.do(lock.release)
    for server in own.servers[:2]:
        fail(server)
    took: list[float] = []
    for _ in range(3):
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


@FIVE
async def test_renewal_keeps_the_quorum(own: Table) -> None:
    """It is kept beyond its lease while a minority is down; that is no loss."""
    clients = own.clients(renewed="soon")
    lock, owner = own.red(clients), own.owner()
    hold = await owner.do(own.face.enter, lock)
    for server in own.servers[1:3]:
        server.kill()
    for _ in range(4):
        await renewed(hold)
    assert not hold.lost.is_set()
    await owner.do(own.face.leave, lock)
    assert own.stored() == [[], [], []]


async def test_a_minority_that_lost_its_data(own: Table) -> None:
    """While the quorum stands, a server that comes back empty is no loss.

    The lock is not written there anew.
    """
    clients = own.clients(renewed="soon")
    lock, owner = own.red(clients), own.owner()
    hold = await owner.do(own.face.enter, lock)
    members = [client.lock("name") for client in clients]
    member = await owner.do(lambda: members[1].hold)
    own.servers[1].restart()
    await until(member.lost.is_set, 10, "the renewal has found it out")
    others = [await owner.do(lambda n=n: members[n].hold) for n in (0, 2)]
    await renewed(*others)
    assert hold.valid
    assert not hold.lost.is_set()
    assert own.stored() == [["name"], [], ["name"]]
    assert await own.owner().do(lock.acquire, timeout=0) is False
    await owner.do(own.face.leave, lock)
    assert own.stored() == [[], [], []]


async def test_a_majority_that_lost_its_data(own: Table) -> None:
    """When a quorum of servers comes back empty, the hold is lost.

    The loss is reported once, and the lock is given back where it still stands.
    """
    clients = own.clients(renewed="soon")
    lock, owner, told = own.red(clients), own.owner(), list[str]()
    hold = await owner.do(own.face.enter, lock)
    await owner.do(hold.on_lost, lambda: told.append("lost"))
    for server in own.servers[:2]:
        server.restart()
    await until(lambda: told, 10, "it is told")
    assert hold.lost.is_set()
    assert not hold
    with pytest.raises(HoldLostError):
        await owner.do(hold.ensure)
    with pytest.raises(HoldLostError):
        await owner.do(own.face.leave, lock)
    assert told == ["lost"]
    assert own.stored() == [[], [], []]
    assert await owner.do(lock.acquire, timeout=10)
    assert await owner.do(lock.hold_count) == 1
    await owner.do(lock.release)


async def test_a_majority_out_of_reach(own: Table) -> None:
    """A hold whose quorum is out of reach for a whole lease is lost when its validity ends."""
    clients = own.clients(lease=5)
    lock, owner = own.red(clients), own.owner()
    hold = await owner.do(own.face.enter, lock)
    for server in own.servers[:2]:
        server.pause()
    assert hold.valid
    await until(hold.lost.is_set, 10, "it is told")
    with pytest.raises(HoldLostError) as caught:
        await owner.do(own.face.leave, lock)
    assert caught.value.reason == "unreachable past validity"
    for server in own.servers[:2]:
        server.resume()


@down
async def test_a_release_without_a_minority(
    own: Table, fail: Callable[[RedisServer], None]
) -> None:
    """One server of three that is down at the release is no error: others do not need it."""
    clients = own.clients(lease=30)
    lock, owner = own.red(clients), own.owner()
    await owner.do(lock.acquire)
    fail(own.servers[0])
    began = time.monotonic()
    await owner.do(lock.release)
    assert time.monotonic() - began < PATIENCE + SLACK
    assert [own.keys_of(server) for server in own.servers[1:]] == [[], []]
    assert await owner.do(lambda: lock.hold) is None
    if own.servers[0].alive:
        own.servers[0].resume()
        await until(
            lambda: own.stored() == [[], [], []], 10, "the background has carried it through"
        )


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


async def test_a_release_outlasts_an_outage(own: Table) -> None:
    """It waits while the lease ends before `outage_timeout`, until the servers are back."""
    lock, owner = own.red(own.clients(lease=30, outage_timeout=60)), own.owner()
    await owner.do(lock.acquire)
    for server in own.servers[:2]:
        server.kill()
    releasing = asyncio.create_task(owner.do(lock.release))
    await asyncio.sleep(0.5)  # it is refused meanwhile
    assert not releasing.done()
    for server in own.servers[:2]:
        server.restart()
    await asyncio.wait_for(releasing, 15)
    await until(lambda: own.stored() == [[], [], []], 10, "it is free everywhere")


async def test_reentry_without_a_minority(own: Table) -> None:
    """A server that misses one entry and is back at the next has the depth of the others.

    So no release is one too many.
    """
    clients = own.clients(lease=30)
    lock, owner = own.red(clients), own.owner()
    await owner.do(lock.acquire)
    for server in own.servers:
        server.pause()
        assert await owner.do(lock.acquire, timeout=0)
        server.resume()
    for depth in (4, 3, 2, 1):
        assert await owner.do(lock.hold_count) == depth
        assert await own.owner().do(lock.acquire, timeout=0) is False
        await owner.do(lock.release)
    await until(lambda: own.stored() == [[], [], []], 10, "it is free everywhere")


def test_a_connection_that_died_idle(own_servers: Sequence[RedisServer]) -> None:
    """A connection that is dead before anything is written costs nobody a server."""
    clients = [interlock.connect(server.url()) for server in own_servers]
    lock = interlock.RedLock(*[client.lock("name") for client in clients])
    lock.acquire()
    lock.release()
    for server in own_servers[:2]:
        with server.client() as killer:
            killer.client_kill_filter(_type="normal", skipme=True)
    lock.acquire(timeout=0)
    assert all(Table.keys_of(server) == ["name"] for server in own_servers)
    lock.release()
    for client in clients:
        client.close()


async def test_a_first_connection_that_takes_its_time(
    own_servers: Sequence[RedisServer], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An acquire does not give up early because its first connections take long.

    Here each takes longer than a server has to answer.
    """
    monkeypatch.setattr(red_lock, "LEAST_PATIENCE", 0.05)
    clients = [interlock.asyncio.connect(server.url()) for server in own_servers]
    for client in clients:
        # Hooked in where the embedded server is started: before the connection is made.
        [lane] = client._driver._multiplexer._lanes.values()
        lane._endpoint._prepare = lambda: time.sleep(0.4)  # a slow connection
    lock = interlock.asyncio.RedLock(*[client.lock("name") for client in clients])
    assert await lock.acquire(timeout=20, lease=2)
    await lock.release()
    for client in clients:
        await client.close()


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


def _forget(table: Table) -> None:
    for server in table.servers:
        with server.client() as client:
            client.script_flush()


async def test_servers_that_forget_the_scripts(table: Table) -> None:
    """Every server that does not know a script's digest any more is sent the text."""
    lock, owner = table.red(table.clients()), table.owner()
    await owner.do(lock.acquire)
    await owner.do(lock.release)
    _forget(table)
    assert await owner.do(lock.acquire, timeout=0)
    _forget(table)
    await owner.do(lock.release)
    assert table.stored() == [[], [], []]
