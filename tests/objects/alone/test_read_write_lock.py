"""What goes over the wire of a read/write lock, whom a forced release ends, and tries in vain."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator

import pytest
import redis
from tests.objects.alone.read_write_wire import Wire
from tests.objects.awaited import Stage, stage_of, until
from tests.objects.kinds import Kind
from tests.support.cards import own_keys
from tests.support.proxy import Action, FaultProxy, command, drop_request, swallow_reply

from interlock import HoldLostError, ServerUnavailableError

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
