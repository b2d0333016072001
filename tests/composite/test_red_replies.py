"""The red lock when replies are lost, late or nonsense: possible grants are given back."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import until
from tests.support.proxy import (
    FaultProxy,
    blackhole,
    command,
    delay,
    drop_reply,
    drop_request,
    swallow_reply,
)

from interlock.errors import QuorumError

if TYPE_CHECKING:
    from tests.composite.table import Table

PATIENCE = 0.5
"""Seconds that a server is given to answer (see the fixture `patience`)."""
SLACK = 6.0
"""Seconds for which a machine with more to do than it can may keep everybody waiting."""
ODD: dict[str, Any] = {
    "reply-lost": drop_reply,
    "request-lost": drop_request,
    "reply-swallowed": swallow_reply,
    "late": delay(1.0),
}


@pytest.mark.parametrize("fault", ODD)
@pytest.mark.parametrize("wins", [True, False])
async def test_a_reply_that_is_not_read(table: Table, fault: str, wins: bool) -> None:
    """If a server's reply is not read, its possible grant is given back, even a late one."""
    with FaultProxy(("127.0.0.1", table.servers[1].port)) as proxy:
        urls = [table.servers[0].url(), proxy.url(), table.servers[2].url()]
        clients = table.clients(urls, command_timeout=1)
        lock, owner, other = table.red(clients), table.owner(), table.owner()
        await owner.do(lock.acquire)
        await owner.do(lock.release)
        taken = [] if wins else [clients[0].lock("name"), clients[2].lock("name")]
        for one in taken:
            await other.do(one.acquire)
        proxy.on_request(command("EVALSHA", nth=1), ODD[fault])
        proxy.on_request(command("EVALSHA", nth=2), ODD[fault])
        assert await owner.do(lock.acquire, timeout=0) is wins
        assert proxy.fired
        if wins:
            await owner.do(lock.release)
        for one in taken:
            await other.do(one.release)
        await asyncio.sleep(1.2)  # what came late has come by now
        await until(lambda: table.stored() == [[], [], []], 10, "nothing is left anywhere")
        await table.end()


async def test_a_server_that_hangs_for_good(table: Table) -> None:
    """A server behind a link that swallows everything costs a time-out each time."""
    with FaultProxy(("127.0.0.1", table.servers[1].port)) as proxy:
        urls = [table.servers[0].url(), proxy.url(), table.servers[2].url()]
        lock, owner = table.red(table.clients(urls, command_timeout=1)), table.owner()
        proxy.on_request(command(), blackhole)
        for _ in range(3):
            began = time.monotonic()
            assert await owner.do(lock.acquire, timeout=0)
            await owner.do(lock.release)
            assert time.monotonic() - began < 2 * PATIENCE + SLACK
        await table.end()


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
    assert table.stored() == [["name"], ["name"], []]


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
