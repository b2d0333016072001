"""What replicas acknowledge of a lock."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.servers import ReplicatedServers

import interlock
import interlock.asyncio
from interlock import ReplicationError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from interlock.options import ReplicaPolicy

NAME = "the name"
PATIENCE = 0.5
"""Seconds for which a stopped replica is waited for."""
PROMPT = 2.0
KINDS = ["lock", "fair_lock", "fenced_lock", "spin_lock"]


@pytest.fixture(scope="module")
def all_servers() -> Iterator[ReplicatedServers]:
    """Give a primary with two replicas."""
    with ReplicatedServers(2) as servers:
        yield servers


@pytest.fixture
def servers(all_servers: ReplicatedServers) -> Iterator[ReplicatedServers]:
    """Give them without data."""
    all_servers.primary.execute("FLUSHALL")
    yield all_servers
    for replica in all_servers.replicas:
        replica.resume()


def _client(servers: ReplicatedServers, policy: ReplicaPolicy) -> Any:
    return interlock.connect(servers.primary.url(), replicas=policy)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_held_is_on_the_replicas(servers: ReplicatedServers, kind: str) -> None:
    """After an acquire, at once or after a wait, the replicas have the lock, and the hold says so."""
    policy = interlock.required(2, 15)
    with _client(servers, policy) as one, _client(servers, policy) as two:
        ours: Any = getattr(one, kind)(NAME)
        theirs: Any = getattr(two, kind)(NAME)

        def wait() -> tuple[bool, int | None, list[Any]]:
            got = theirs.acquire(timeout=20)
            known = [replica.execute("HLEN", NAME) for replica in servers.replicas]
            return got, theirs.hold.replicas, known

        with ThreadPoolExecutor() as pool:
            assert ours.acquire()
            assert ours.hold.replicas == 2
            assert [each.execute("HLEN", NAME) for each in servers.replicas] == [1, 1]
            waiting = pool.submit(wait)
            time.sleep(0.3)
            ours.release()
            assert waiting.result(20) == (True, 2, [1, 1])


def test_a_waiter_that_is_not_replicated_lets_the_next_one_try(servers: ReplicatedServers) -> None:
    """A waiter that gets the lock but too few replicas raises; the next one gets the lock."""
    with (
        _client(servers, interlock.required(2, PATIENCE)) as strict,
        _client(servers, interlock.best_effort(2, PATIENCE)) as easy,
        ThreadPoolExecutor() as pool,
    ):
        first: Any = easy.lock(NAME)
        assert first.acquire()
        locks: list[Any] = [each.lock(NAME) for each in (strict, easy)]
        waits = []
        for lock in locks:
            waits.append(pool.submit(lock.acquire, timeout=20))
            time.sleep(0.3)
        servers.replicas[0].pause()
        first.release()
        with pytest.raises(ReplicationError):
            waits[0].result(20)
        assert waits[1].result(20)


def test_only_a_grant_is_waited_for(servers: ReplicatedServers) -> None:
    """Re-entry, extension and release do not wait for replicas, which stand still; nor a refusal."""
    with (
        _client(servers, interlock.required(2, 9)) as client,
        _client(servers, interlock.required(2, 9)) as other,
    ):
        lock: Any = client.lock(NAME)
        assert lock.acquire()
        for replica in servers.replicas:
            replica.pause()
        began = time.monotonic()
        assert lock.acquire()
        lock.extend(20)
        assert not other.lock(NAME).acquire(timeout=0)
        lock.release()
        lock.release()
        assert time.monotonic() - began < PROMPT


def test_tasks_wait_for_replicas_too(servers: ReplicatedServers) -> None:
    """A best effort of a task holds the lock in any case; the hold tells how many had it."""

    async def acquire() -> int | None:
        url, policy = servers.primary.url(), interlock.best_effort(2, PATIENCE)
        async with interlock.asyncio.connect(url, replicas=policy) as client:
            lock: Any = client.lock(NAME)
            async with lock as hold:
                count: int | None = hold.replicas
                return count

    servers.replicas[0].pause()
    assert asyncio.run(acquire()) == 1
