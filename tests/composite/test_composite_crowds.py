"""Crowds that want several locks: nobody waits for ever, a stopped owner leaves none behind."""

from __future__ import annotations

import asyncio
import random
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.composite.table import Table


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
