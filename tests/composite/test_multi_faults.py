"""The multi lock when servers fail or replies are lost."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import until

from interlock.errors import NotHeldError, ServerUnavailableError

if TYPE_CHECKING:
    from tests.composite.table import Table
    from tests.support.servers import RedisServer


async def test_a_server_that_is_down(own: Table) -> None:
    """If a member's server is down, the acquire raises and gives the other members back."""
    clients = own.clients(command_timeout=2, outage_timeout=0.5)
    lock = own.face.module.MultiLock(*[client.lock("name") for client in clients])
    owner = own.owner()
    await owner.do(lock.acquire)
    await owner.do(lock.release)
    max(own.servers, key=_place).kill()
    for timeout in (0, 0.5):
        with pytest.raises(ServerUnavailableError):
            await owner.do(lock.acquire, timeout=timeout)
        await until(lambda: own.stored() == [[], []], 10, "it is given back")
    for call in (lock.locked, lock.force_release):
        with pytest.raises(ServerUnavailableError):
            await owner.do(call)


async def test_an_outage_is_sat_out(own: Table) -> None:
    """A waiter holds the other members only for a while if a member's server is away.

    It goes on when the server is back.
    """
    clients = own.clients(outage_timeout=20)
    lock = own.face.module.MultiLock(*[client.lock("name") for client in clients[:2]])
    owner = own.owner()
    await owner.do(lock.acquire)
    await owner.do(lock.release)
    last = max(own.servers[:2], key=_place)
    last.kill()
    waiting = asyncio.create_task(owner.do(lock.acquire))
    await until(lambda: ["name"] in own.stored(), 5, "it has the first")
    await until(lambda: ["name"] not in own.stored(), 10, "it has given the first back")
    last.restart()
    assert await waiting
    await owner.do(lock.release)


def _place(server: RedisServer) -> str:
    """Return what the canonical order goes by."""
    return str(server.port)


async def test_a_release_goes_everywhere(own: Table) -> None:
    """A release raises if a member's server is down, and frees the others."""
    clients = own.clients(outage_timeout=0.3, command_timeout=0.3)
    lock = own.face.module.MultiLock(*[client.lock("name") for client in clients])
    owner = own.owner()
    await owner.do(lock.acquire)
    own.servers[0].pause()
    with pytest.raises(ServerUnavailableError):
        await owner.do(lock.release)
    for server in own.servers[1:]:
        await until(lambda there=server: own.keys_of(there) == [], 10, "the others are free")
    own.servers[0].resume()
    await until(
        lambda: own.keys_of(own.servers[0]) == [], 10, "the background has carried it through"
    )
    with pytest.raises(NotHeldError):
        await owner.do(lock.release)


async def test_who_gives_up_does_not_wait_for_a_server_that_hangs(own: Table) -> None:
    """The time-out holds: the background gives back the lock of a server that hangs."""
    clients = own.clients(command_timeout=5, outage_timeout=20)
    ordered = sorted(zip(own.servers, clients, strict=True), key=lambda pair: _place(pair[0]))
    (first, _), (_, last) = ordered[0], ordered[-1]
    other, owner = own.owner(), own.owner()
    lock = own.face.module.MultiLock(*[client.lock("name") for client in clients])
    await other.do(last.lock("name").acquire)
    waiting = asyncio.create_task(owner.do(lock.acquire, timeout=1))
    there = ordered[-1][0]
    await until(lambda: any("_queue:" in key for key in own.keys_of(there)), 5, "it waits")
    first.pause()
    try:
        assert not await asyncio.wait_for(waiting, 20)
    finally:
        first.resume()
    await until(lambda: own.keys_of(first) == [], 10, "it is given back")
    await other.do(last.lock("name").release)
