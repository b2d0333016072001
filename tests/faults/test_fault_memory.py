"""A server whose memory is full renews, extends and releases holds, but grants nothing new."""

from __future__ import annotations

import time
from contextlib import ExitStack
from threading import Timer
from typing import TYPE_CHECKING

import pytest
from tests.support.patience import wait_until

import interlock
from interlock import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.support.servers import RedisServer

LEASE = 1.5


def _locks(client: interlock.Client) -> list[interlock.Lock]:
    """Return a lock of each kind whose holds have scripts of their own."""
    both = client.read_write_lock("both")
    return [
        client.lock("plain"),
        client.fair_lock("fair"),
        client.fenced_lock("fenced"),
        client.group_lock("group", ["one", "two"]),
        client.read_write_lock("reading").read,
        client.read_write_lock("writing").write,
        both.write,
        both.read,
    ]


def test_what_is_held_survives_full_memory(any_server: RedisServer) -> None:
    """At maxmemory, every kind of hold is renewed past its lease, extended and released.

    A release works at every depth.
    """
    with ExitStack() as stack:
        client = stack.enter_context(interlock.connect(any_server.url(), lease=LEASE))
        locks, semaphore = _locks(client), client.leased_semaphore("permits")
        semaphore.try_set_permits(3)
        permits = [semaphore.acquire(), semaphore.acquire(2)]
        for lock in locks:
            assert lock.acquire()
            assert lock.acquire()
        holds = [lock.hold for lock in locks]
        stack.callback(any_server.execute, "CONFIG", "SET", "maxmemory", 0)
        any_server.execute("CONFIG", "SET", "maxmemory", 1)
        with pytest.raises(ServerUnavailableError, match="OOM"):
            client.lock("new").acquire(timeout=0)
        time.sleep(LEASE + 0.3)  # nothing was renewed by anybody else
        assert [hold.name for hold in holds if not hold] == []
        assert all(permit.valid for permit in permits)
        for lock in locks:
            lock.extend(20)
        permits[0].extend(20)
        for lock in locks:
            lock.release()
            assert lock.hold_count() == 1
            lock.release()
        for permit in permits:
            permit.release()
        any_server.execute("CONFIG", "SET", "maxmemory", 0)
        assert semaphore.available_permits() == 3
        assert not any(lock.locked() for lock in locks)


@pytest.mark.parametrize("version", ["redis-8.2"])
def test_a_waiter_leaves_a_full_server(
    version: str,
    server_of_version: Callable[[str], RedisServer],
) -> None:
    """Who waits for a fair lock waits on while memory is full, and leaves no place when it gives up."""
    server = server_of_version(version)
    server.execute("FLUSHALL")
    with (
        interlock.connect(server.url()) as holder,
        interlock.connect(server.url()) as waiter,
        server.client() as seen,
        ExitStack() as stack,
    ):
        holder.fair_lock("name").acquire()
        stack.callback(server.execute, "CONFIG", "SET", "maxmemory", 0)
        assert not _wait_until_full(server, waiter.fair_lock("name"))
        wait_until(lambda: seen.llen("redisson_lock_queue:{name}") == 0, 10, "its place is free")
        holder.fair_lock("name").release()


def _wait_until_full(server: RedisServer, lock: interlock.Lock) -> bool:
    """Wait for *lock*, which is held, on a server whose memory becomes full; return whether it came."""
    Timer(0.3, server.execute, ("CONFIG", "SET", "maxmemory", 1)).start()
    return lock.acquire(timeout=5)
