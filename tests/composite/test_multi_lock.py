"""The multi lock on real servers: all members or none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.objects.awaited import until

from interlock._core.locks import multi_lock
from interlock.errors import NotHeldError, ServerUnavailableError

if TYPE_CHECKING:
    from tests.composite.table import Table
    from tests.support.servers import RedisServer


async def test_all_are_held_and_given_back(table: Table) -> None:
    """Members of several servers and kinds are all held, and are all free after the release."""
    a, b, c = table.clients()
    lock = table.face.module.MultiLock(
        a.lock("plain"), b.fenced_lock("fenced"), c.fair_lock("fair"), a.spin_lock("spin")
    )
    owner = table.owner()
    assert await owner.do(lock.acquire) is True
    assert table.stored() == [
        ["plain", "spin"],
        ["fenced", "redisson_lock_token:{fenced}"],
        ["fair"],
    ]
    assert await owner.do(lock.owned) is True
    assert await table.owner().do(lock.locked) is True
    await owner.do(lock.release)
    assert table.stored() == [[], ["redisson_lock_token:{fenced}"], []]
    assert await owner.do(lock.locked) is False
    with pytest.raises(NotHeldError):
        await owner.do(lock.release)


@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "spin_lock", "fair_lock", "group_lock"])
async def test_a_member_is_entered_by_its_own_name(table: Table, kind: str) -> None:
    """A member's own lock and the multi lock are of one owner, and are free when both are left."""
    client, owner, other = table.client(), table.owner(), table.owner()
    member = getattr(client, kind)("b", *[["x", "y"]] * (kind == "group_lock"))
    lock = client.multi_lock(client.lock("a"), member)
    for outer, inner in ((lock, member), (member, lock)):
        await owner.do(outer.acquire)
        assert await owner.do(inner.acquire, timeout=5)
        await owner.do(inner.release)
        assert await other.do(member.acquire, timeout=0) is False
        await owner.do(outer.release)
        assert not await owner.do(inner.locked)


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


def _place(server: RedisServer) -> str:
    """Return what the canonical order goes by."""
    return str(server.port)


async def test_who_gives_up_does_not_wait_for_a_server_that_hangs(
    own: Table, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The time-out holds: the background gives back the lock of a server that hangs."""
    monkeypatch.setattr(multi_lock, "MEMBER_BUDGET", 30.0)  # it does not begin anew meanwhile
    clients = own.clients(command_timeout=5, outage_timeout=20)
    ordered = sorted(zip(own.servers, clients, strict=True), key=lambda pair: _place(pair[0]))
    (first, _), (_, last) = ordered[0], ordered[-1]
    other, owner = own.owner(), own.owner()
    lock = own.face.module.MultiLock(*[client.lock("name") for client in clients])
    await other.do(last.lock("name").acquire)
    waiting = asyncio.create_task(owner.do(lock.acquire, timeout=4))
    there = ordered[-1][0]
    await until(lambda: any("_queue:" in key for key in own.keys_of(there)), 5, "it waits")
    first.pause()
    try:
        assert not await asyncio.wait_for(waiting, 20)
    finally:
        first.resume()
    await until(lambda: own.keys_of(first) == [], 10, "it is given back")
    await other.do(last.lock("name").release)
