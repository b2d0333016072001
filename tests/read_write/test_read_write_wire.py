"""What goes over the wire: hash, entries, TTLs and messages around each operation.

All of it is byte for byte as Redisson has it.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import until
from tests.read_write.wire import CHANNEL, JAVA
from tests.support.cards import own_keys

from interlock import UpgradeError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.read_write.wire import Wire
    from tests.support.proxy import FaultProxy

JUST = 2000
"""Milliseconds: less than this is gone of a lease that was taken just now."""


def _fresh(left: int, lease: int = 30_000) -> bool:
    return lease - JUST < left <= lease


async def test_a_writer_that_stops_reading(rw: Stage, wire: Wire) -> None:
    """Releasing the read lock while writing tells nobody and leaves the writer its lease."""
    owner, lock = rw.owner(), rw.lock(rw.client())
    await owner.do(lock.write.acquire, lease=60)
    await owner.do(lock.read.acquire, lease=5)
    await owner.do(lock.read.release)
    writer = (await owner.do(lambda: lock.write.hold)).holder
    assert wire.hash() == {"mode": "write", writer: "1"}
    assert len(own_keys(rw.redis)) == 1
    assert _fresh(wire.left(), 60_000)
    assert wire.heard() == []
    await owner.do(lock.write.release)
    assert wire.heard() == ["1"]


async def test_uncontended_is_one_round_trip_each(proxy: FaultProxy, rw: Stage) -> None:
    """Acquire and release of either side, re-entry and downgrade take one EVALSHA each.

    An upgrade takes none.
    """
    owner, lock = rw.owner(), rw.lock(rw.client(proxy.url(), card=False))
    await owner.do(lock.read.locked)
    proxy.clear_record()
    calls = (lock.write.acquire, lock.write.acquire, lock.read.acquire, lock.write.release)
    for call in (*calls, lock.write.release, lock.read.release):
        await owner.do(call)
    assert [request.args[0] for request in proxy.record] == [b"EVALSHA"] * 6
    proxy.clear_record()
    await owner.do(lock.read.acquire)
    with pytest.raises(UpgradeError):
        await owner.do(lock.write.acquire)
    assert len(proxy.record) == 1


async def test_javas_readers_and_ours_share(rw: Stage, wire: Wire) -> None:
    """A Java reader and ours share the lock, each with its fields.

    The last one to leave frees it and says so.
    """
    owner, lock = rw.owner(), rw.lock(rw.client())
    assert wire.java_reads() is None
    assert await owner.do(lock.read.acquire, timeout=0)
    assert not await owner.do(rw.lock(rw.client()).write.acquire, timeout=0)
    holder = (await owner.do(lambda: lock.read.hold)).holder
    assert wire.hash() == {"mode": "read", JAVA: "1", holder: "1"}
    await owner.do(lock.read.release)
    assert wire.heard() == []
    assert wire.hash() == {"mode": "read", JAVA: "1"}
    assert wire.java_stops_reading() == 1
    assert wire.heard() == ["0"]
    assert not own_keys(rw.redis)


async def test_java_frees_what_we_wait_for(rw: Stage, wire: Wire) -> None:
    """Our waiters enter on Java's messages: a writer on 0, all readers on 1."""
    client = rw.client()
    lock, owners = rw.lock(client), [rw.owner() for _ in range(3)]
    wire.java_reads()
    writing = asyncio.create_task(owners[0].do(lock.write.acquire))
    await until(lambda: _listeners(rw) == 2, 5, "it listens")
    wire.java_stops_reading()
    assert await asyncio.wait_for(writing, 20)
    await owners[0].do(lock.write.release)
    wire.java_writes()
    reading = [asyncio.create_task(owner.do(lock.read.acquire)) for owner in owners]
    await rw.waits(3)
    assert not any(task.done() for task in reading)
    wire.java_stops_writing()
    assert await asyncio.wait_for(asyncio.gather(*reading), 20) == [True] * 3


async def test_java_is_refused_for_as_long_as_it_must(rw: Stage, wire: Wire) -> None:
    """A Java writer is told a TTL while ours reads, and a Java reader while ours writes.

    They enter afterwards.
    """
    owner, lock = rw.owner(), rw.lock(rw.client())
    await owner.do(lock.read.acquire, lease=10)
    assert _fresh(wire.java_writes(), 10_000)
    assert wire.java_reads() is None
    wire.java_stops_reading()
    await owner.do(lock.read.release)
    await owner.do(lock.write.acquire, lease=10)
    assert _fresh(wire.java_reads(), 10_000)
    assert _fresh(wire.java_writes(), 10_000)
    await owner.do(lock.write.release)
    assert wire.java_writes() is None


def _listeners(rw: Stage) -> int:
    return dict(rw.redis.pubsub_numsub(CHANNEL))[CHANNEL.encode()]
