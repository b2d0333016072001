"""Policies that want a grant on disk (WAITAOF), and servers that cannot do what is asked."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.objects.awaited import until
from tests.replicas.conftest import Bed
from tests.support.servers import RedisServer, ReplicatedServers, binaries

import interlock
from interlock import ReplicationError
from interlock.options import ReplicaPolicy

PATIENCE = 0.3


@pytest.fixture(scope="module", params=["redis-8.2"])
def logged(request: pytest.FixtureRequest) -> Iterator[ReplicatedServers]:
    """Give a primary and a replica of Redis 8.2 that write every command to disk at once."""
    always = {"appendfsync": "always"}
    with ReplicatedServers(
        1, binary=binaries()[request.param], appendonly=True, config=always
    ) as it:
        yield it


@pytest.fixture
def replicated(logged: ReplicatedServers) -> ReplicatedServers:
    """Have `bed` use these."""
    return logged


@pytest.mark.parametrize("count", [0, 1, "all"])
async def test_what_is_held_is_on_disk(bed: Bed, count: int) -> None:
    """With ``fsync`` a lock is held once the primary and the wanted replicas have it on disk."""
    me, lock = bed.owner(), bed.lock(bed.client(replicas=interlock.required(count, 15, fsync=True)))
    assert await me.do(lock.acquire)
    assert (await me.do(lambda: lock.hold)).replicas >= (count if count != "all" else 1)
    await me.do(lock.release)


async def test_a_replica_that_does_not_write_is_too_few(bed: Bed) -> None:
    """A replica that stands still has nothing on its disk: the lock is given back."""
    policy = interlock.required(1, PATIENCE, fsync=True)
    me, lock = bed.owner(), bed.lock(bed.client(replicas=policy))
    bed.stop(0)
    with pytest.raises(ReplicationError, match="0 of 1 replicas"):
        await me.do(lock.acquire)
    bed.resume()
    await until(lambda: not bed.left_behind(), 10, "it is given back")


@pytest.mark.parametrize(
    ("version", "told"), [("redis-7.0", "unknown command"), ("redis-8.2", "appendonly is disabled")]
)
@pytest.mark.parametrize("policy", [interlock.best_effort, interlock.required])
async def test_a_server_that_cannot_tell_is_named(
    bed: Bed, version: str, told: str, policy: type[ReplicaPolicy]
) -> None:
    """Without WAITAOF or appendonly even a best effort is an error; nothing is held."""
    with RedisServer(binaries()[version]) as server:
        client, me = bed.client(server.url(), replicas=policy(0, fsync=True)), bed.owner()
        lock, semaphore = bed.lock(client), client.semaphore("permits")
        with pytest.raises(ReplicationError, match=told):
            await me.do(lock.acquire)
        await until(lambda: not server.execute("EXISTS", "name"), 10, "it is given back")
        await me.do(semaphore.try_set_permits, 2)
        with pytest.raises(ReplicationError, match=told):
            await me.do(semaphore.acquire)
        await until(lambda: server.execute("GET", "permits") == b"2", 10, "it is given back")
        assert await me.do(semaphore.available_permits) == 2
        await bed.close(client)
