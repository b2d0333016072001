"""A lock that two owners hold, built as section 8 of the architecture has it: it does what it says.

The cases of all lock-likes run over it, too: `test_room_lock_like.py`.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import Kind, renewed, stage_of, until
from tests.operations.room_lock import ROW, room_lock

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage

pytestmark = pytest.mark.usefixtures("room_row")
stage = stage_of(Kind("room", room_lock, row=ROW))
RARE = 200.0
"""Seconds between the looks of those who wait only for a message."""


async def test_two_hold_it_and_no_third(stage: Stage) -> None:
    """Two owners of any clients hold it at a time; a third waits until one of them releases."""
    mine = stage.lock(stage.client())
    theirs = stage.lock(stage.client(poll_cap=RARE, lease=RARE))
    a, b, c = stage.owner(), stage.owner(), stage.owner()
    assert await a.do(mine.acquire)
    assert await b.do(theirs.acquire, timeout=0)
    assert not await c.do(theirs.acquire, timeout=0)
    waiting = asyncio.create_task(c.do(theirs.acquire))
    await stage.waits()
    await a.do(mine.release)
    assert await asyncio.wait_for(waiting, 60)
    assert not await a.do(mine.acquire, timeout=0)
    await b.do(theirs.release)
    await c.do(theirs.release)
    assert stage.left_behind() == set()


async def test_one_message_lets_two_in(stage: Stage) -> None:
    """A forced release frees both places by one message: two waiters of one client get them."""
    mine = stage.lock(stage.client())
    theirs = stage.lock(stage.client(poll_cap=RARE, lease=RARE))
    a, b, c, d = (stage.owner() for _ in range(4))
    assert await a.do(mine.acquire)
    assert await b.do(mine.acquire)
    waiting = [asyncio.create_task(each.do(theirs.acquire)) for each in (c, d)]
    await stage.waits(2)
    assert await stage.owner().do(mine.force_release)
    assert await asyncio.wait_for(asyncio.gather(*waiting), 60) == [True, True]
    await c.do(theirs.release)
    await d.do(theirs.release)


async def test_one_lease_ends(stage: Stage) -> None:
    """A lease that ends frees one place; the other holder is renewed and keeps its own."""
    client, other = stage.client(renewed="soon"), stage.client()
    a, b, c, d = (stage.owner() for _ in range(4))
    lock = stage.lock(client)
    assert await a.do(lock.acquire)
    hold = await a.do(lambda: lock.hold)
    assert await b.do(stage.lock(other).acquire, lease=1)
    assert await asyncio.wait_for(c.do(stage.lock(other).acquire), 30)
    await renewed(hold)
    assert hold.valid
    assert not await d.do(stage.lock(other).acquire, timeout=0)
    await c.do(stage.lock(other).release)


async def test_operators_break_one_hold(stage: Stage) -> None:
    """An operator sees both holders, and breaks the hold of one of them only."""
    client = stage.client(renewed="soon")
    a, b = stage.owner(), stage.owner()
    lock = stage.lock(client)
    assert await a.do(lock.acquire)
    assert await b.do(lock.acquire)
    first, second = await a.do(lambda: lock.hold), await b.do(lambda: lock.hold)
    info = await b.do(client.describe, "name")
    assert info.kind == "room_lock"
    assert {each.holder for each in info.holders} == {first.holder, second.holder}
    assert await b.do(client.force_release, "name", holder=first.holder, reason="stuck")
    await until(lambda: not first.valid, 10, "it is told")
    assert second.valid
