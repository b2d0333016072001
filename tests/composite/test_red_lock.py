"""The red lock on real servers that are well: a quorum of all, asked at once."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import queued, sent_in, until
from tests.support.holding import acquires
from tests.support.proxy import FaultProxy, delay_reply

from interlock.errors import HoldLostError

if TYPE_CHECKING:
    from tests.composite.table import Table


async def test_all_servers_are_asked_at_once(five: Table) -> None:
    """One round trip to each server acquires it everywhere, and one more frees it again."""
    with FaultProxy(("127.0.0.1", five.servers[0].port)) as proxy:
        urls = [proxy.url(), *(server.url() for server in five.servers[1:])]
        # A card is written from time to time, and costs a round trip of its own.
        clients = five.clients(urls, card=False)
        lock, owner = five.red(clients), five.owner()
        await owner.do(lock.acquire)
        await owner.do(lock.release)
        proxy.clear_record()
        await owner.do(lock.acquire)
        assert five.stored() == [["name"]] * 5
        assert proxy.round_trips == 1
        await owner.do(lock.release)
        assert five.stored() == [[]] * 5
        assert proxy.round_trips == 2
        await five.end()


@pytest.mark.parametrize(("taken", "granted"), [(1, True), (2, True), (3, False), (5, False)])
async def test_a_quorum_decides(five: Table, taken: int, granted: bool) -> None:
    """Three of five are enough and two are not; who fails has nothing left anywhere."""
    clients = five.clients()
    lock, other, owner = five.red(clients), five.owner(), five.owner()
    for client in clients[:taken]:
        await other.do(client.lock("name").acquire)
    assert await owner.do(lock.acquire, timeout=0) is granted
    if granted:
        hold = await owner.do(lambda: lock.hold)
        assert hold.valid
        assert hold.depth == 1
        await owner.do(lock.release)
    assert five.stored() == [["name"]] * taken + [[]] * (5 - taken)
    assert await owner.do(lock.locked) is not granted


async def test_validity(table: Table) -> None:
    """A hold is valid for its lease less the time of the acquire and the drift of clocks."""
    lock, owner = table.red(table.clients()), table.owner()
    began = time.monotonic()
    assert await owner.do(lock.acquire, lease=100)
    hold = await owner.do(lambda: lock.hold)
    remaining, elapsed = hold.remaining, time.monotonic() - began
    assert 100 - 2 * elapsed - 1 < remaining < 100 - 100 * 0.001
    assert 60 < await owner.do(lock.remaining) <= 100
    await owner.do(lock.extend, 200)
    assert 160 < hold.remaining < 200
    for server in table.servers:
        assert 160_000 < int(str(server.execute("PTTL", "name"))) <= 200_000
    await owner.do(lock.release)


async def test_a_release_finds_the_loss(table: Table) -> None:
    """A re-entry asks no server; the last release finds the quorum gone, and frees the rest."""
    clients, others = table.clients(), table.clients()
    lock, owner, other = table.red(clients), table.owner(), table.owner()
    await owner.do(lock.acquire)
    for client in others[:2]:
        await other.do(client.lock("name").force_release)
    assert await owner.do(lock.acquire)
    await owner.do(lock.release)
    with pytest.raises(HoldLostError):
        await owner.do(lock.release)
    await until(lambda: table.stored() == [[], [], []], 10, "all are free")


async def test_what_was_held_before_stays_held(table: Table) -> None:
    """A member that the owner held before is entered once more.

    It goes back to its former depth afterwards.
    """
    clients = table.clients()
    lock, owner, other = table.red(clients), table.owner(), table.owner()
    mine = clients[0].lock("name")
    await owner.do(mine.acquire)
    assert await owner.do(lock.acquire)
    await owner.do(lock.release)
    assert await owner.do(mine.hold_count) == 1
    for client in clients[1:]:
        await other.do(client.lock("name").acquire)
    assert await owner.do(lock.acquire, timeout=0.2) is False
    assert await owner.do(mine.hold_count) == 1
    await owner.do(mine.release)


async def test_its_own_names(table: Table) -> None:
    """Who holds servers' locks alone enters them again by the red lock."""
    clients, owner = table.clients(), table.owner()
    lock, alone = table.red(clients), [client.lock("name") for client in clients]
    for each in alone:
        await owner.do(each.acquire)
        assert await owner.do(lock.acquire, timeout=5)
        await owner.do(lock.release)
    for each in alone:
        await owner.do(each.release)
    assert table.stored() == [[], [], []]


async def test_who_waits_for_one_server_holds_nobody_up(table: Table) -> None:
    """A quorum is taken although somebody of the same client waits for one member alone."""
    clients, holder, waiter, owner = table.clients(), table.owner(), table.owner(), table.owner()
    first, second, _ = _in_order(table)  # who waits for a quorum hears the first
    theirs = [client.lock("name") for client in table.clients()]
    member = clients[first].lock("name")
    await holder.do(theirs[first].acquire)
    waiting = asyncio.create_task(waiter.do(member.acquire))
    await queued(clients[first])
    assert await owner.do(table.red(clients).acquire, timeout=5)
    await owner.do(table.red(clients).release)
    # Who waits for a quorum looks, too, though the other one came first, and nobody tells it.
    await holder.do(theirs[second].acquire)
    taking = asyncio.create_task(owner.do(table.red(clients).acquire, timeout=20))
    await queued(clients[first], count=2)
    await holder.do(theirs[second].release)
    assert await taking
    assert not waiting.done()
    await owner.do(table.red(clients).release)
    await holder.do(theirs[first].release)
    assert await asyncio.wait_for(waiting, 20)
    await waiter.do(member.release)


def _in_order(table: Table) -> list[int]:
    """Return the places of the servers in the order in which a lock asks them."""
    return sorted(range(3), key=lambda place: str(table.servers[place].port))


async def test_waiting_costs_little(table: Table) -> None:
    """Ten who wait in one process ask each server a few times a second, all together."""
    with FaultProxy(("127.0.0.1", table.servers[1].port)) as proxy:
        urls = [table.servers[0].url(), proxy.url(), table.servers[2].url()]
        clients = table.clients(urls)
        lock, holder = table.red(clients), table.owner()
        theirs = table.red(table.clients())
        await holder.do(theirs.acquire)
        waiting = [
            asyncio.create_task(table.owner().do(lock.acquire, timeout=3)) for _ in range(10)
        ]
        await queued(*clients, count=10)
        await sent_in(proxy, 2)
        assert proxy.commands["EVALSHA"] <= 30
        assert await asyncio.gather(*waiting) == [False] * 10
        await holder.do(theirs.release)
        await table.end()


async def test_waiting_costs_little_beside_a_free_member(table: Table) -> None:
    """So it is when the member that they heard was released, and the others are still held."""
    with FaultProxy(("127.0.0.1", table.servers[2].port)) as proxy:
        urls = [table.servers[0].url(), table.servers[1].url(), proxy.url()]
        clients, holder = table.clients(urls), table.owner()
        theirs = [client.lock("name") for client in table.clients()]
        for member in theirs:
            await holder.do(member.acquire)
        waiting = asyncio.create_task(table.owner().do(table.red(clients).acquire, timeout=4))
        await queued(*clients)
        heard = [bool(each._driver.session.queues.places) for each in clients]
        await holder.do(theirs[heard.index(True)].release)
        await sent_in(proxy, 2)
        assert proxy.commands["EVALSHA"] <= 20
        assert await waiting is False
        await table.end()


async def test_a_client_that_closes_while_a_try_is_undone(tasks: Table) -> None:
    """A cancelled task waits for all servers at once, and one that is slow must not cost a lease.

    The client that closes has forgotten the hold by then, and nobody has sent the release.
    """
    with FaultProxy(("127.0.0.1", tasks.servers[1].port)) as slow:
        urls = [tasks.servers[0].url(), slow.url(), tasks.servers[2].url()]
        clients = tasks.clients(urls)
        lock = tasks.red(clients)
        async with lock:  # all connections are open
            pass
        slow.on_request(lambda request: b"name" in request, delay_reply(1))
        acquiring = asyncio.create_task(acquires(lock))
        await until(lambda: tasks.stored() == [["name"]] * 3, 20, "all servers have it")
        acquiring.cancel()
        await clients[0].close()
        assert tasks.stored()[0] == []
        with pytest.raises(asyncio.CancelledError):
            await acquiring
        await until(lambda: tasks.stored() == [[]] * 3, 20, "nothing is left")
        await tasks.end()
