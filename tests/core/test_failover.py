"""A failover beside the queue."""

from __future__ import annotations

import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import wait_until
from tests.support.servers import SentinelServers, reach_replicas

import interlock

if TYPE_CHECKING:
    from collections.abc import Iterator

NAME = "the name"
SOON = 10.0
"""Seconds after the promotion within which each has its turn; a lease is 30."""


@pytest.fixture
def servers() -> Iterator[SentinelServers]:
    """Give a primary with two replicas under three Sentinels."""
    with SentinelServers(down_after=2.0) as servers:
        yield servers


def test_waiters_go_on_at_the_next_primary(servers: SentinelServers) -> None:
    """It has neither the release nor the grant that followed it: everybody has a turn, soon."""
    with contextlib.ExitStack() as stack:
        made = [interlock.connect(servers.url()) for _ in range(3)]
        clients = [stack.enter_context(client) for client in made]
        ours, theirs, third = (client.lock(NAME) for client in clients)
        pool = stack.enter_context(ThreadPoolExecutor())
        inside: list[int] = []

        def turn(lock: Any, number: int) -> float:
            assert lock.acquire(timeout=60)
            had = time.monotonic()
            inside.append(number)
            assert inside == [number]
            time.sleep(0.1)
            inside.clear()
            lock.release()
            return had

        old = servers.present_primary()
        assert ours.acquire()
        with old.client() as seen:
            waits = []
            for number, lock in enumerate((theirs, third)):
                waits.append(pool.submit(turn, lock, number))
                wait_until(lambda: _waiting(seen) == len(waits), 10, "it stands in the queue")
            reach_replicas(seen, 2)
        for replica in servers.servers:
            if replica is not old:
                replica.execute("REPLICAOF", "127.0.0.1", "1")  # it hears of no release
        ours.release()
        old.kill()
        servers.wait_for_promotion(old)
        promoted = time.monotonic()
        assert all(wait.result(60) < promoted + SOON for wait in waits)


def _waiting(seen: Any) -> int:
    count: int = seen.zcard(f"interlock_queue:{{{NAME}}}")
    return count
