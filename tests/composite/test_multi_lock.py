"""The multi lock on real servers: all members or none."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import until
from tests.support.servers import RedisServer

from interlock.errors import HoldLostError, NotHeldError, UpgradeError, WrongTypeError

if TYPE_CHECKING:
    from tests.composite.table import Table


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


async def test_waits_for_the_first_without_a_budget(table: Table) -> None:
    """A waiter for the first member holds nothing, so it stays in its queue past any budget."""
    client, another = table.client(), table.client()
    lock, owner, other = table.multi(client, "a", "b"), table.owner(), table.owner()
    await other.do(another.lock("a").acquire)
    waiting = asyncio.create_task(owner.do(lock.acquire))
    await asyncio.sleep(4)  # 2 members: 2.25 to 3.75 s
    assert table.taken() == ["a"]
    await other.do(another.lock("a").release)
    assert await asyncio.wait_for(waiting, 10)
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


@pytest.mark.parametrize("side", ["read", "write"])
@pytest.mark.parametrize("other", ["read", "write"])
async def test_a_side_and_a_member_of_its_name(table: Table, side: str, other: str) -> None:
    """They are one owner's: a reader may not write besides, as by itself."""
    client, owner = table.client(), table.owner()
    both = client.read_write_lock("name")
    lock, member = getattr(both, side), client.multi_lock(getattr(both, other))
    await owner.do(lock.acquire)
    if (side, other) == ("read", "write"):
        with pytest.raises(UpgradeError):
            await owner.do(member.acquire, timeout=5)
    else:
        assert await owner.do(member.acquire, timeout=5)
        await owner.do(member.release)
    await owner.do(lock.release)
    assert table.stored()[0] == []


async def test_one_that_is_lost_on_the_way(table: Table) -> None:
    """A member that is lost while the others are waited for is acquired again.

    At the end all of them are held.
    """
    client, another = table.client(lease=20), table.client()
    lock, owner, other = table.multi(client, "a", "b"), table.owner(), table.owner()
    await other.do(another.lock("b").acquire)
    waiting = asyncio.create_task(owner.do(lock.acquire, lease=20))
    await until(lambda: table.taken() == ["a", "b"], 5, "it has the first")
    await other.do(another.lock("a").force_release)
    await other.do(another.lock("b").release)
    assert await asyncio.wait_for(waiting, 20)
    assert table.stored()[0] == ["a", "b"]
    await owner.do(lock.release)


async def test_extending_what_is_lost(table: Table) -> None:
    """What has lost a member cannot be extended, and says why; the others are given back then."""
    client, another = table.client(), table.client()
    lock, owner = table.multi(client, "a", "b"), table.owner()
    hold = await owner.do(table.face.enter, lock)
    await table.owner().do(another.lock("b").force_release)
    with pytest.raises(HoldLostError) as caught:
        await owner.do(lock.extend, 60)
    assert (caught.value.name, caught.value.reason) == ("a + b", "force-released")
    with pytest.raises(HoldLostError, match="force-released"):
        hold.ensure()
    await until(lambda: table.stored()[0] == [], 10, "all are given back")
    with pytest.raises(HoldLostError):
        await owner.do(lock.release)


async def test_a_key_that_is_something_else(table: Table) -> None:
    """A member whose key holds something else makes the acquire raise and leave nothing."""
    client = table.client()
    table.servers[0].execute("SET", "b", "text")
    lock: Any = table.multi(client, "a", "b", "c")
    for timeout in (0, None):
        with pytest.raises(WrongTypeError, match=r"^'b' at"):
            await table.owner().do(lock.acquire, timeout=timeout)
        await until(lambda: table.stored()[0] == ["b"], 10, "the others are given back")


@pytest.mark.needs("tls")
async def test_servers_with_and_without_tls(table: Table) -> None:
    """One server may be reached by TLS, and another one without it."""
    with RedisServer(tls=True) as encrypted:
        clients = table.clients([table.servers[0].url(), encrypted.url()])
        lock = table.face.module.MultiLock(*[client.lock("name") for client in clients])
        owner = table.owner()
        for _ in range(3):
            assert await owner.do(lock.acquire) is True
            await owner.do(lock.release)
        assert table.stored()[0] == table.keys_of(encrypted) == []
        for client in clients:
            await owner.do(client.close)
