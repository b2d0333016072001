"""The red lock on real servers that are well: a quorum of all, asked at once."""

from __future__ import annotations

import time
from datetime import timedelta
from typing import TYPE_CHECKING

from tests.support.proxy import FaultProxy

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


async def test_validity(table: Table) -> None:
    """A hold is valid for its lease less the time of the acquire and the drift of clocks."""
    lock, owner = table.red(table.clients()), table.owner()
    began = time.monotonic()
    assert await owner.do(lock.acquire, lease=timedelta(hours=1))
    hold = await owner.do(lambda: lock.hold)
    remaining, elapsed = hold.remaining, time.monotonic() - began
    assert 3600 - 3.6 - 2 * elapsed - 1 < remaining < 3600 - 3.5
    assert 3500 < await owner.do(lock.remaining) <= 3600
    await owner.do(lock.extend, timedelta(hours=2))
    assert 7100 < hold.remaining < 7200 - 7
    for server in table.servers:
        assert 7_100_000 < int(str(server.execute("PTTL", "name"))) <= 7_200_000
    await owner.do(lock.release)
