"""Crowds that want several locks: nobody waits for ever, a stopped owner leaves none behind."""

from __future__ import annotations

import asyncio
import random
import time
from typing import TYPE_CHECKING

import pytest
from tests.composite.table import Table
from tests.lock.children import Child

import interlock

if TYPE_CHECKING:
    from collections.abc import Sequence

    from tests.support.servers import RedisServer

CROWD = 20
NAMES = "abcdef"


async def test_random_subsets(table: Table) -> None:
    """Twenty owners of three clients take random subsets of six locks, and all finish.

    Each lock has one holder at a time.
    """
    draw = random.Random(7)
    clients = [table.client() for _ in range(3)]
    inside, entries = dict.fromkeys(NAMES, 0), list[int]()

    async def work(number: int) -> None:
        owner, client = table.owner(), clients[number % 3]
        for _ in range(3):
            names = draw.sample(NAMES, draw.randint(2, 4))
            lock = table.multi(client, *names)
            await owner.do(lock.acquire)
            for name in names:
                inside[name] += 1
            assert max(inside.values()) == 1
            await owner.do(client.lock("another").locked)
            for name in names:
                inside[name] -= 1
            entries.append(number)
            await owner.do(lock.release)

    await asyncio.wait_for(asyncio.gather(*map(work, range(CROWD))), 60)
    assert len(entries) == 3 * CROWD
    assert table.stored()[0] == []


KINDS = ["multi", "red"]


@pytest.mark.parametrize("kind", KINDS)
def test_killed(servers: Sequence[RedisServer], kind: str) -> None:
    """The hold of a killed process ends everywhere with its lease, and not much later."""
    code = f"""
    urls = url.split()
    clients = [renews_soon(interlock.connect(one, lease=2)) for one in urls]
    lock = interlock.{kind.title()}Lock(*[client.lock("name") for client in clients])
    lock.acquire()
    say("held")
    threading.Event().wait()
    """
    urls = [server.url() for server in servers[:3]]
    with Child(code, " ".join(urls)) as child:
        assert child.hear() == "held"
        assert [Table.keys_of(server) for server in servers[:3]] == [["name"]] * 3
        child.kill()
        clients = [interlock.connect(url) for url in urls]
        made = interlock.MultiLock if kind == "multi" else interlock.RedLock
        lock = made(*[client.lock("name") for client in clients])
        began = time.monotonic()
        assert lock.acquire(timeout=20)
        assert time.monotonic() - began < 10
        lock.release()
        for client in clients:
            client.close()
