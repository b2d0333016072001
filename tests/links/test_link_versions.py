"""Every supported server, by every way that leads to it."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.objects.awaited import renewed, until
from tests.support.servers import RedisServer

if TYPE_CHECKING:
    import redis
    from tests.objects.awaited import Stage


async def smoke(stage: Stage, url: str, server: redis.Redis, name: str = "name") -> None:
    """Acquire, re-enter, wait, release, renew, extend, ask and force-release through *url*.

    *server* is a client that sees the effects.
    """
    client, other = stage.client(url, lease=4), stage.client(url)
    ours, theirs = client.lock(name), other.lock(name)
    holder, waiter = stage.owner(), stage.owner()

    assert await holder.do(ours.acquire)
    assert await holder.do(ours.acquire)
    assert list(server.hgetall(name).values()) == [b"2"]
    assert await holder.do(ours.hold_count) == 2
    assert await waiter.do(theirs.locked)
    assert not await waiter.do(theirs.acquire, timeout=0.3)
    hold = await holder.do(lambda: ours.hold)
    await renewed(hold)
    assert server.pttl(name) > 2000

    channel = f"redisson_lock__channel:{{{name}}}"
    waiting = asyncio.create_task(waiter.do(theirs.acquire, timeout=20))
    await until(lambda: server.pubsub_numsub(channel)[0][1] == 1, 10, "the waiter hears")
    await holder.do(ours.release)
    assert list(server.hgetall(name).values()) == [b"1"]
    await holder.do(ours.release)
    assert await waiting
    await waiter.do(theirs.extend, 60)
    assert server.pttl(name) > 50_000
    assert await holder.do(ours.locked)

    lost = await waiter.do(lambda: theirs.hold)
    assert await holder.do(ours.force_release)
    assert not server.exists(name)
    assert not await waiter.do(theirs.owned)
    await until(lost.lost.is_set, 10, "the loss is told")


async def test_a_lock_works_on_every_supported_server(
    stage: Stage, any_server: RedisServer
) -> None:
    """Acquire, re-enter, wait, renew, release and force-release work on each server version."""
    with any_server.client() as server:
        await smoke(stage, any_server.url(), server)


async def test_a_lock_works_over_a_unix_socket(stage: Stage, server: RedisServer) -> None:
    """A ``unix://`` URL serves a lock as TCP does, on the database that it names."""
    with server.client(db=2) as seen:
        await smoke(stage, server.unix_url(db=2), seen)
    assert "server.sock" in repr(stage.client(server.unix_url()))


async def test_a_lock_works_over_tls(stage: Stage, tls_server: RedisServer) -> None:
    """With the server's authority and a client certificate of its own, a lock works over TLS."""
    tls_server.execute("FLUSHALL")
    with tls_server.client() as seen:
        await smoke(stage, tls_server.url(), seen)


@pytest.mark.parametrize(
    ("face", "user"), [("sync", None), ("asyncio", "alice")], indirect=["face"]
)
async def test_a_lock_works_with_a_password(stage: Stage, user: str | None) -> None:
    """The URL's password may have any characters, for the default user or an ACL user."""
    users = ["alice on >p@ss/w:rd%20 ~* &* +@all"]
    with RedisServer(password="p@ss/w:rd%20", users=users) as guarded:
        with guarded.client() as seen:
            await smoke(stage, guarded.url(0, user, "p@ss/w:rd%20"), seen)
        await stage.end()


async def test_the_database_number_chooses_the_database(stage: Stage, server: RedisServer) -> None:
    """The number in the path, or in the query, is where the keys are."""
    for url in (server.url(db=3), f"redis://127.0.0.1:{server.port}?db=3"):
        lock, owner = stage.client(url).lock("name"), stage.owner()
        assert await owner.do(lock.acquire, timeout=5)
        with server.client(db=3) as third:
            assert third.exists("name")
        assert not stage.redis.exists("name")
        await owner.do(lock.release)


async def test_a_multi_lock_over_two_databases(stage: Stage, server: RedisServer) -> None:
    """One name in two databases of a server is two locks, which a multi lock holds both."""
    one, other = stage.client(server.url()), stage.client(server.url(db=1))
    owner = stage.owner()
    both = one.multi_lock(one.lock("name"), other.lock("name"))
    assert await owner.do(both.acquire)
    assert server.execute("EXISTS", "name")
    with server.client(db=1) as second:
        assert second.exists("name")
    await owner.do(both.release)
