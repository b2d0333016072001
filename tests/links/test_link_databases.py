"""Databases of one server: each is a place of its own for locks."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tests.objects.awaited import Stage
    from tests.support.servers import RedisServer


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
