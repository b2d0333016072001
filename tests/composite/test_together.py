"""The multi lock whose members are plain locks of one client: one script takes or frees them."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import queued

from interlock.errors import HoldLostError

if TYPE_CHECKING:
    from tests.composite.table import Table

NAMES = ("a", "b", "c")


async def test_all_are_taken_and_freed(table: Table) -> None:
    """All members are held, entered again, extended and free after the last release."""
    client, *_ = table.clients()
    members = [client.lock(name) for name in NAMES]
    lock, owner = table.face.module.MultiLock(*members), table.owner()
    for _ in range(3):
        assert await owner.do(lock.acquire) is True
        assert table.stored()[0] == list(NAMES)
        assert await owner.do(lock.acquire) is True
        await owner.do(lock.release)
        await owner.do(lock.extend, 60)
        assert table.stored()[0] == list(NAMES)
        await owner.do(lock.release)
        assert table.stored()[0] == []
    assert await owner.do(lock.acquire, lease=30) is True
    await owner.do(lock.release)


@pytest.mark.parametrize("taken", NAMES)
async def test_one_that_is_taken_bars_all(table: Table, taken: str) -> None:
    """If another owner holds any member, a single try takes none, and a longer one waits."""
    client, *_ = table.clients()
    lock = table.face.module.MultiLock(*[client.lock(name) for name in NAMES])
    other, owner, held = table.owner(), table.owner(), client.lock(taken)
    await other.do(held.acquire)
    assert await owner.do(lock.acquire, timeout=0) is False
    assert table.stored()[0] == [taken]
    waiting = asyncio.ensure_future(owner.do(lock.acquire))
    await queued(client)
    await other.do(held.release)
    assert await waiting is True
    await owner.do(lock.release)
    assert table.stored()[0] == []


async def test_a_member_goes_to_its_waiter(table: Table) -> None:
    """Members that nobody waits for are freed at once, and the others go to who waits."""
    client, *_ = table.clients()
    lock = table.face.module.MultiLock(*[client.lock(name) for name in NAMES])
    owner, other, waited = table.owner(), table.owner(), client.lock("b")
    await owner.do(lock.acquire)
    waiting = asyncio.ensure_future(other.do(waited.acquire))
    await queued(client)
    await owner.do(lock.release)
    assert await waiting is True
    await other.do(waited.release)
    assert table.stored()[0] == []


async def test_a_lost_member_is_told(table: Table) -> None:
    """A release tells that one member is gone, and frees the others."""
    client, *_ = table.clients()
    lock, owner = table.face.module.MultiLock(*[client.lock(n) for n in NAMES]), table.owner()
    await owner.do(lock.acquire)
    table.servers[0].client().delete("b")
    with pytest.raises(HoldLostError, match="'b'"):
        await owner.do(lock.release)
    assert table.stored()[0] == []


async def test_a_single_try_outlives_a_stale_connection(table: Table) -> None:
    """If the server has closed the connection meanwhile, a single try asks once more."""
    client, *_ = table.clients()
    lock = table.face.module.MultiLock(*[client.lock(name) for name in NAMES])
    owner, server = table.owner(), table.servers[0].client()
    assert await owner.do(lock.acquire, timeout=0) is True
    await owner.do(lock.release)
    server.client_kill_filter(_type="normal", skipme=True)
    assert await owner.do(lock.acquire, timeout=0) is True
    await owner.do(lock.release)
    assert table.stored()[0] == []
