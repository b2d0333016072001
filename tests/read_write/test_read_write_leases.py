"""Each reader's lease is its own, and no shorter lease or release shortens it.

The dead block nobody beyond their leases.
"""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import renewed, take_turn, until
from tests.read_write.wire import Wire
from tests.support.servers import wait_until

import interlock

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage

SLACK = 8.0
"""Seconds that a busy machine may take for next to nothing."""
DEAD = "0a1b2c3d-60f2-4fd7-9a8c-5ad1e9f8a0ff:{}"


async def _alive(wire: Wire, count: int) -> None:
    """Wait until *count* readers have a lease; the server ends each by its own clock."""
    await until(lambda: wire.alive() == count, 5, f"{count} are left")


async def test_a_writer_waits_for_the_living_only(rw: Stage, wire: Wire) -> None:
    """A writer gets the lock when the last living reader's lease ends, whatever the TTL.

    No field of a dead reader is left.
    """
    client, writer = rw.client(), rw.owner()
    lock = rw.lock(client)
    wire.java_writes(60_000)
    started = time.monotonic()
    wire.java_reads(1_000)
    wire.java_stops_writing()
    assert wire.left() > 50_000, "a downgrade by Redisson leaves the writer's lease"
    assert await writer.do(lock.write.acquire, timeout=20)
    assert 0.99 < time.monotonic() - started < 1 + SLACK
    assert set(wire.hash()) == {"mode", (await writer.do(lambda: lock.write.hold)).holder}


async def test_the_dead_do_not_count(rw: Stage, wire: Wire) -> None:
    """Readers whose leases have ended do not count for a writer that waits.

    It removes them, and leaves the living.
    """
    client, other = rw.client(), rw.client()
    lock, owner, writer = rw.lock(other), rw.owner(), rw.owner()
    for number in range(5):
        wire.java_reads(50, DEAD.format(number))
    rw.redis.pexpire("name", 120_000)
    await _alive(wire, 0)
    await owner.do(lock.read.acquire, lease=60)
    holder = (await owner.do(lambda: lock.read.hold)).holder
    waiting = asyncio.create_task(writer.do(rw.lock(client).write.acquire, timeout=60))
    await until(lambda: wire.hash() == {"mode": "read", holder: "1"}, 2 * SLACK, "gone")
    assert not waiting.done()
    await owner.do(lock.read.release)
    assert await waiting
    await writer.do(rw.lock(client).write.release)
    assert rw.left_behind() == set()


async def test_a_downgrade_does_not_go_on_for_the_dead(rw: Stage, wire: Wire) -> None:
    """A writer whose own reading has ended frees the lock for a writer that waits."""
    owner, lock, writer = rw.owner(), rw.lock(rw.client()), rw.owner()
    await owner.do(lock.write.acquire, lease=60)
    await owner.do(lock.read.acquire, lease=0.2)
    await _alive(wire, 0)
    await owner.do(lock.write.release)
    theirs = rw.lock(rw.client())
    assert await writer.do(theirs.write.acquire, timeout=SLACK)
    await writer.do(theirs.write.release)
    assert rw.left_behind() == set()


async def test_only_what_is_held_here_is_renewed(rw: Stage, wire: Wire) -> None:
    """A client renews all its own entries and no others; a dead reader beside it expires."""
    lock, owner = rw.lock(rw.client(renewed="soon")), rw.owner()
    wire.java_reads(1_000)
    for _ in range(3):
        await owner.do(lock.read.acquire)
    hold = await owner.do(lambda: lock.read.hold)
    await renewed(hold)
    java = "2f5ca6ef-60f2-4fd7-9a8c-5ad1e9f8a0ff:38"
    await until(lambda: wire.entries(java) == {}, 5, "the dead one's lease has ended")
    assert hold.valid
    assert [*wire.entries(hold.holder)] == [1], "one for however many entries"
    for _ in range(3):
        await owner.do(lock.read.release)
    assert await rw.owner().do(rw.lock(rw.client()).write.acquire, timeout=2 * SLACK)


async def test_a_writer_that_stopped_reading_is_renewed_on(rw: Stage) -> None:
    """Releasing the read lock leaves the renewal of the same owner's write lock alone."""
    lock, owner, other = rw.lock(rw.client(renewed="soon")), rw.owner(), rw.owner()
    await owner.do(lock.write.acquire)
    for _ in range(2):
        await owner.do(lock.read.acquire)
        await owner.do(lock.read.release)
    hold = await owner.do(lambda: lock.write.hold)
    await renewed(hold)
    assert not await other.do(rw.lock(rw.client()).read.acquire, timeout=1)
    assert hold.valid
    await owner.do(lock.write.release)


async def test_a_lock_that_java_shortened_is_kept(rw: Stage, wire: Wire) -> None:
    """If another client's renewal cut the lock's TTL, our next renewal raises it to our lease."""
    lock, owner = rw.lock(rw.client(lease=3)), rw.owner()
    await owner.do(lock.read.acquire)
    rw.redis.pexpire("name", 2_500)
    await until(lambda: wire.left() > 2_500, 10, "a renewal has raised it")
    assert await owner.do(lock.read.owned)


READ = """
client = renews_soon(interlock.connect(url, lease=4))
for name in "name", "alone":
    client.read_write_lock(name).read.acquire()
say("held")
sys.stdin.readline()
"""
READ_IN_TASK = """
async def main():
    client = renews_soon(interlock.asyncio.connect(url, lease=4))
    name, alone = (client.read_write_lock(each).read for each in ("name", "alone"))
    async with client, name, alone:
        say("held")
        await asyncio.Event().wait()
asyncio.run(main())
"""


@pytest.mark.parametrize("code", [READ, READ_IN_TASK], ids=["sync", "asyncio"])
def test_a_killed_reader_blocks_for_its_lease(
    redis_url: str, redis_client: redis.Redis, code: str
) -> None:
    """A writer enters within the lease of a killed reader, with or without other readers."""
    with (
        Child(code, redis_url) as reader,
        interlock.connect(redis_url) as client,
        interlock.connect(redis_url) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        writing = client.read_write_lock("name").write
        beside = other.read_write_lock("name").read
        assert reader.hear() == "held"
        beside.acquire()
        alone = pool.submit(take_turn, client.read_write_lock("alone").write)
        assert not writing.acquire(timeout=4.4, lease=5)
        assert not alone.done()
        reader.kill()
        wire = Wire(redis_client)
        wait_until(lambda: wire.alive() == 1, 10, "the killed reader's lease has ended")
        wire.close()
        beside.release()
        assert writing.acquire(timeout=SLACK), "the dead one's lease is over"
        writing.release()
        assert alone.result(SLACK)
