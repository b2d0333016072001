"""A red lock does not wait for its slowest servers once a quorum has granted it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import until

from interlock._core.locks import together

if TYPE_CHECKING:
    from tests.composite.table import Table
    from tests.lock.lock_like import Owner
    from tests.support.servers import RedisServer

PATIENCE = 40.0
"""Seconds that a server is given to answer (see the fixture `patience`)."""
LINGER = 0.01
"""Seconds for which servers may still grant it after a quorum has."""
FEW, MANY = 20, 40
"""Acquires of which one server does not answer in time."""
FIVE = pytest.mark.parametrize("own_servers", [5], indirect=True)


def _connections(server: RedisServer) -> int:
    told = server.execute("CLIENT", "LIST")
    assert isinstance(told, bytes)
    return told.count(b"\n")


async def _warm_up(own: Table, owner: Owner, lock: Any) -> None:
    """Connect to all servers. A grant that came late stays until it is given back."""
    await owner.do(lock.acquire)
    await owner.do(lock.release)
    await until(lambda: own.stored() == [[]] * 5, 10, "late grants are given back")


@FIVE
async def test_the_slowest_are_not_waited_for(own: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three of five servers decide. Later grants are given back while it is held."""
    clients, owner = own.clients(), own.owner()
    lock = own.red(clients)
    await _warm_up(own, owner, lock)
    for server in own.servers[:2]:
        server.pause()
    began = time.monotonic()
    assert await owner.do(lock.acquire, timeout=0)
    assert time.monotonic() - began < PATIENCE
    for server in own.servers[:2]:
        server.resume()
    await until(lambda: own.stored() == [[], [], *[["name"]] * 3], 10, "three have it")
    await owner.do(lock.release)
    await until(lambda: own.stored() == [[]] * 5, 10, "nothing is left")
    monkeypatch.setattr(together, "LINGER", PATIENCE)
    assert await owner.do(lock.acquire, timeout=0)
    assert own.stored() == [["name"]] * 5
    await owner.do(lock.release)


@FIVE
async def test_those_that_are_down_are_not_waited_for(own: Table) -> None:
    """A server that refuses is asked once more at once, and then the quorum has the lock."""
    owner, lock = own.owner(), own.red(own.clients())
    await _warm_up(own, owner, lock)
    own.servers[0].kill()
    took = list[float]()
    for _ in range(10):
        began = time.monotonic()
        assert await owner.do(lock.acquire, timeout=0)
        took.append(time.monotonic() - began)
        await owner.do(lock.release)
    assert min(took) < 0.03


@pytest.mark.needs("gcc")
@FIVE
async def test_replies_that_nobody_waits_for_need_few_connections(own: Table) -> None:
    """Each connection is given up soon after enough others have answered."""
    clients, owner = own.clients(), own.owner()
    lock, slow = own.red(clients), own.servers[0]
    await _warm_up(own, owner, lock)
    before = _connections(slow)
    slow.pause()
    for _ in range(FEW):
        assert await owner.do(lock.acquire, timeout=PATIENCE)
        await owner.do(lock.release)
    slow.resume()
    # One more gives back, and one may just be closing.
    await until(lambda: _connections(slow) <= before + 2, 5, "the others are closed")
    slow.pause()
    for _ in range(MANY):
        assert await owner.do(lock.acquire, timeout=PATIENCE)
        await owner.do(lock.release)
    slow.resume()
    await until(lambda: own.stored() == [[]] * 5, 10, "nothing is left")


@FIVE
async def test_they_take_no_connection_from_others(own: Table) -> None:
    """If the only connection waits for such a reply, it is soon free for another call."""
    urls, owner = [f"{each.url()}?max_connections=1" for each in own.servers], own.owner()
    clients = own.clients(urls)
    lock, other = own.red(clients), clients[0].lock("other")
    await _warm_up(own, owner, lock)
    own.servers[0].pause()
    assert await owner.do(lock.acquire, timeout=0)
    own.servers[0].resume()
    assert await owner.do(other.acquire, timeout=20)
    await owner.do(other.release)
    await owner.do(lock.release)
    await until(lambda: own.stored() == [[]] * 5, 10, "nothing is left")


@FIVE
async def test_other_calls_use_the_same_connections(own: Table) -> None:
    """A connection that has got the replies that nobody waited for serves other calls."""
    clients, owner = own.clients(), own.owner()
    lock, slow, other = own.red(clients), own.servers[0], clients[0].lock("other")
    await _warm_up(own, owner, lock)
    before = slow.execute("CLIENT", "LIST").count(b"id=")
    for _ in range(FEW):
        slow.pause()
        assert await owner.do(lock.acquire, timeout=PATIENCE)
        slow.resume()
        await owner.do(lock.release)
        await until(lambda: own.stored() == [[]] * 5, 10, "nothing is left")
        assert not await owner.do(other.locked)
    assert slow.execute("CLIENT", "LIST").count(b"id=") <= before + 3
