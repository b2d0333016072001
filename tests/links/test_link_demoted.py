"""A server behind a plain URL that becomes a replica."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

import pytest
from tests.objects.awaited import until

from interlock import ServerUnavailableError

if TYPE_CHECKING:
    from tests.objects.awaited import Stage
    from tests.support.servers import RedisServer


async def test_a_replica_that_is_promoted_is_waited_for(
    stage: Stage, fresh_server: RedisServer
) -> None:
    """An acquire sits out that its server is a replica, if it has executed scripts before."""
    lock, owner = stage.client(fresh_server.url()).lock("name"), stage.owner()
    assert await owner.do(lock.acquire)
    await owner.do(lock.release)
    fresh_server.execute("REPLICAOF", "127.0.0.1", 1)
    acquiring = asyncio.create_task(owner.do(lock.acquire, timeout=20))

    def refused() -> bool:
        with fresh_server.client() as client:
            return "errorstat_READONLY" in client.info("errorstats")

    await until(refused, 10, "the replica has refused the script")
    assert not acquiring.done()
    fresh_server.execute("REPLICAOF", "NO", "ONE")
    assert await acquiring
    await owner.do(lock.release)


async def test_a_url_of_a_replica_is_a_mistake(stage: Stage, fresh_server: RedisServer) -> None:
    """A server that was a replica from the beginning is told of at once."""
    fresh_server.execute("REPLICAOF", "127.0.0.1", 1)
    lock, owner = stage.client(fresh_server.url()).lock("name"), stage.owner()
    began = time.monotonic()
    with pytest.raises(ServerUnavailableError, match="connect to the primary") as caught:
        await owner.do(lock.acquire, timeout=20)
    assert time.monotonic() - began < 5
    assert not caught.value.transient
