"""What goes over the wire of a read/write lock, whom a forced release ends, and tries in vain."""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
import redis
from tests.lock.lock_like import Kind, stage_of, until
from tests.objects.alone.read_write_wire import Wire
from tests.support.cards import own_keys
from tests.support.proxy import command, drop_request, swallow_reply

import interlock
import interlock.asyncio
from interlock import HoldLostError, ServerUnavailableError, UpgradeError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from tests.lock.lock_like import Stage
    from tests.support.proxy import Action, FaultProxy

rw = stage_of(
    Kind("read-write", lambda client, name, **options: client.read_write_lock(name, **options))
)


@pytest.fixture
def wire(loaded: redis.Redis) -> Iterator[Wire]:
    """Give the lock as it is on the server, and Redisson's side of it."""
    watched = Wire(loaded)
    yield watched
    watched.close()


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


async def test_force_release_is_of_one_side(rw: Stage, wire: Wire) -> None:
    """It ends all readers, or the writer, if that side is held; the holders are told."""
    client = rw.client(lease=6, renewed="soon")
    lock, a, b = rw.lock(client), rw.owner(), rw.owner()
    stranger = rw.lock(rw.client())
    for owner in (a, b):
        await owner.do(lock.read.acquire)
    holds = [await owner.do(lambda: lock.read.hold) for owner in (a, b)]
    assert await a.do(stranger.write.force_release) is False
    assert all(holds)
    assert await a.do(stranger.read.force_release) is True
    assert wire.heard() == ["0"]
    notes = {f"interlock_forced:{{name}}:{hold.holder}" for hold in holds}
    assert rw.left_behind() <= notes, "a note is read once"
    await until(lambda: all(hold.lost.is_set() for hold in holds), 5, "both were told")
    for owner in (a, b):
        with pytest.raises(HoldLostError):
            await owner.do(lock.read.release)
    await a.do(lock.write.acquire)
    await a.do(lock.read.acquire)
    hold = await a.do(lambda: lock.write.hold)
    assert await b.do(lock.read.force_release) is False
    assert hold
    assert await b.do(lock.write.force_release) is True
    assert hold.lost.is_set(), "in its own client at once"
    assert wire.heard() == ["1"]
    for side in (lock.read, lock.write):
        with pytest.raises(HoldLostError):
            await a.do(side.release)
    assert not [key for key in rw.left_behind() if not key.startswith("interlock_forced:")]


@pytest.mark.parametrize("fault", [drop_request, swallow_reply])
async def test_reading_after_a_try_that_came_to_nothing(
    rw: Stage, wire: Wire, proxy: FaultProxy, fault: Action
) -> None:
    """A writer whose try to read got no answer reads at the next try, and comes down.

    It reads under another number than it writes.
    """
    owner, lock = rw.owner(), rw.lock(rw.client(proxy.url(), command_timeout=0.8))
    await owner.do(lock.write.acquire)
    proxy.on_request(command("EVALSHA"), fault)
    proxy.on_request(command("EVAL"), fault)
    with pytest.raises(ServerUnavailableError):
        await owner.do(lock.read.acquire, timeout=0)
    proxy.clear_rules()
    assert await asyncio.wait_for(owner.do(lock.read.acquire), 20)
    writer = (await owner.do(lambda: lock.write.hold)).holder
    reader = (await owner.do(lambda: lock.read.hold)).holder
    assert writer != f"{reader}:write"
    await until(
        lambda: wire.hash() == {"mode": "write", writer: "1", reader: "1"}, 5, "it was undone"
    )
    await owner.do(lock.write.release)
    assert wire.hash() == {"mode": "read", reader: "1"}
    await owner.do(lock.read.release)
    await until(lambda: rw.left_behind() == set(), 5, "nothing is left")


SLACK = 8.0
"""Seconds that a busy machine may take for next to nothing."""
DEAD = "0a1b2c3d-60f2-4fd7-9a8c-5ad1e9f8a0ff:{}"


async def _alive(wire: Wire, count: int) -> None:
    """Wait until *count* readers have a lease; the server ends each by its own clock."""
    await until(lambda: wire.alive() == count, 5, f"{count} are left")


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


def test_readers_see_no_half_written_thing(redis_url: str, redis_client: redis.Redis) -> None:
    """Readers see whole what writers change in two steps, and no change is lost.

    Writers come down to look at their change.
    """
    together = [interlock.connect(redis_url) for _ in range(4)]
    state, failures = {"left": 0, "right": 0}, list[BaseException]()

    def work(number: int) -> None:
        lock = together[number % 4].read_write_lock("name")
        try:
            for turn in range(12):
                if (number + turn) % 4:
                    with lock.read:
                        assert state["left"] == state["right"]
                        continue
                with lock.write:
                    state["left"] += 1
                    seen = state["left"]
                    together[0].lock("other").locked()
                    state["right"] += 1
                    lock.read.acquire()
                assert state["left"] == state["right"] == seen
                lock.read.release()
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(16)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for client in together:
        client.close()
    assert failures == []
    assert state == {"left": 48, "right": 48}
    assert not own_keys(redis_client)
