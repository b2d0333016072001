"""A server whose memory is full renews, extends and releases holds, but grants nothing new."""

from __future__ import annotations

import time
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

import interlock
from interlock import ServerUnavailableError

if TYPE_CHECKING:
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
