"""Who may be in: many readers or one writer, reentrant, down but not up."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import until
from tests.support.cards import own_keys

import interlock
from interlock import AcquireTimeoutError, HoldLostError, NotHeldError, UpgradeError
from interlock._core.locks.lock_base import Release

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage
    from tests.read_write.wire import Wire


@pytest.mark.parametrize("same_client", [True, False], ids=["same-client", "another-client"])
async def test_many_read_or_one_writes(rw: Stage, same_client: bool) -> None:
    """Readers are in together and keep writers out; a writer keeps everybody else out."""
    first = rw.client()
    other = first if same_client else rw.client()
    mine, theirs = rw.lock(first), rw.lock(other)
    a, b, c = rw.owner(), rw.owner(), rw.owner()
    assert await a.do(mine.read.acquire, timeout=0)
    assert await b.do(theirs.read.acquire, timeout=0)
    assert not await c.do(theirs.write.acquire, timeout=0.05)
    await a.do(mine.read.release)
    assert not await c.do(theirs.write.acquire, timeout=0)
    await b.do(theirs.read.release)
    assert await c.do(theirs.write.acquire, timeout=0)
    assert not await a.do(mine.read.acquire, timeout=0.05)
    assert not await b.do(mine.write.acquire, timeout=0)
    await c.do(theirs.write.release)
    assert await a.do(mine.read.acquire, timeout=0)
    await a.do(mine.read.release)
    assert rw.left_behind() == set()


async def test_each_side_tells_of_itself(rw: Stage) -> None:
    """Locked, owned, depth and remaining tell of the side that is asked; the repr shows both."""
    client, owner, other = rw.client(), rw.owner(), rw.owner()
    lock = rw.lock(client, lease=60)
    await owner.do(lock.write.acquire)
    assert await other.do(lock.write.locked)
    assert not await other.do(lock.read.locked)
    await owner.do(lock.read.acquire)
    await owner.do(lock.read.acquire)
    assert await other.do(lock.read.locked), "the writer reads"
    assert (await owner.do(lock.write.hold_count), await owner.do(lock.read.hold_count)) == (1, 2)
    assert (await other.do(lock.write.owned), await other.do(lock.read.owned)) == (False, False)
    await owner.do(lock.write.release)
    assert not await other.do(lock.write.locked)
    assert await other.do(lock.write.remaining) is None
    assert 40 < await other.do(lock.read.remaining) <= 60
    assert await owner.do(lambda: lock.write.hold) is None
    text = await owner.do(repr, lock)
    assert text.startswith("<ReadWriteLock 'name' read=")
    assert "valid" in text
    assert "not held" in text


async def test_up_is_an_error_at_once(rw: Stage) -> None:
    """A reader that asks to write gets UpgradeError, timeout or not, and keeps its read hold."""
    owner, lock = rw.owner(), rw.lock(rw.client())
    await owner.do(lock.read.acquire)
    for arguments in ({}, {"timeout": 0}, {"timeout": 60}, {"blocking": False}):
        with pytest.raises(UpgradeError, match="'name'") as caught:
            await asyncio.wait_for(owner.do(lock.write.acquire, **arguments), 20)
        assert caught.value.name == "name"
    with pytest.raises(RuntimeError):
        await owner.do(rw.face.enter, lock.write)
    assert await owner.do(lock.read.hold_count) == 1
    await owner.do(lock.read.release)
    assert await owner.do(lock.write.acquire, timeout=0)
    await owner.do(lock.write.release)
    assert rw.left_behind() == set()


async def test_up_is_possible_for_who_came_down(rw: Stage) -> None:
    """A writer that also reads may write again; a mere reader gets UpgradeError."""
    owner, lock = rw.owner(), rw.lock(rw.client())
    await owner.do(lock.write.acquire)
    await owner.do(lock.read.acquire)
    assert await owner.do(lock.write.acquire, timeout=0)
    await owner.do(lock.write.release)
    await owner.do(lock.write.release)
    with pytest.raises(UpgradeError):
        await owner.do(lock.write.acquire)


async def test_readers_enter_on_a_downgrade(rw: Stage) -> None:
    """When a writer comes down, waiting readers of all clients enter; a waiting writer does not."""
    here, there = rw.client(poll_cap=30), rw.client(poll_cap=30)
    owner, lock = rw.owner(), rw.lock(here)
    await owner.do(lock.write.acquire)
    locks = [rw.lock(client) for client in (here, here, here, there, there, there)]
    reading = [asyncio.create_task(rw.owner().do(each.read.acquire)) for each in locks]
    await rw.waits(6)
    writing = asyncio.create_task(rw.owner().do(rw.lock(there).write.acquire, timeout=20))
    await rw.waits(7)
    assert await asyncio.wait_for(owner.do(lock.read.acquire), 20), (
        "it passes those who wait for it"
    )
    await owner.do(lock.write.release)
    assert await asyncio.wait_for(asyncio.gather(*reading), 20) == [True] * 6
    assert not writing.done()
    writing.cancel()
    await owner.do(lock.read.release)


async def test_all_waiting_readers_enter_on_a_release(rw: Stage) -> None:
    """When a writer releases, all waiting readers of a client enter, not only the first."""
    client, owner = rw.client(poll_cap=30), rw.owner()
    lock = rw.lock(client)
    await owner.do(rw.lock(rw.client()).write.acquire)
    reading = [asyncio.create_task(rw.owner().do(lock.read.acquire)) for _ in range(12)]
    await rw.waits(12)
    assert not any(task.done() for task in reading)
    await owner.do(rw.lock(client).write.force_release)
    assert await asyncio.wait_for(asyncio.gather(*reading), 20) == [True] * 12
    assert await owner.do(lock.read.locked)


async def test_later_readers_queue_behind_a_waiting_writer(rw: Stage) -> None:
    """Within a client, later readers queue behind a waiting writer.

    A single try and a re-entry pass it.
    """
    client = rw.client(poll_cap=30)
    lock, a, b, c, d = rw.lock(client), rw.owner(), rw.owner(), rw.owner(), rw.owner()
    await a.do(lock.read.acquire)
    writing = asyncio.create_task(b.do(lock.write.acquire))
    await until(rw.redis.pubsub_channels, 5, "the writer waits")
    reading = asyncio.create_task(c.do(lock.read.acquire))
    await rw.waits(2)
    assert not reading.done()
    assert await d.do(lock.read.acquire, timeout=0)
    await d.do(lock.read.release)
    assert await asyncio.wait_for(a.do(lock.read.acquire), 20)
    await a.do(lock.read.release)
    await a.do(lock.read.release)
    assert await asyncio.wait_for(writing, 20)
    assert not reading.done()
    await b.do(lock.write.release)
    assert await asyncio.wait_for(reading, 20)


async def test_readers_enter_when_the_writer_before_them_gives_up(rw: Stage) -> None:
    """A waiting writer whose time is up, or that is cancelled, lets those behind it ask at once."""
    client = rw.client(poll_cap=30)
    lock, a, b, c = rw.lock(client), rw.owner(), rw.owner(), rw.owner()
    await a.do(lock.read.acquire)
    writing = asyncio.create_task(b.do(lock.write.acquire, timeout=0.6))
    await rw.waits()
    reading = asyncio.create_task(c.do(lock.read.acquire))
    assert not await asyncio.wait_for(writing, 20)
    assert await asyncio.wait_for(reading, 20)


async def test_only_the_owner_releases_its_side(rw: Stage) -> None:
    """Releasing the side that is not held, or another's, is NotHeldError and changes nothing."""
    owner, other, lock = rw.owner(), rw.owner(), rw.lock(rw.client())
    await owner.do(lock.read.acquire)
    for who, side in ((owner, lock.write), (other, lock.read)):
        with pytest.raises(NotHeldError, match="nothing was changed"):
            await who.do(side.release)
    assert await owner.do(lock.read.hold_count) == 1
    await owner.do(lock.read.release)
    await owner.do(lock.write.acquire)
    with pytest.raises(NotHeldError):
        await owner.do(lock.read.release)
    assert await owner.do(lock.write.hold_count) == 1


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
    entries = {f"{{name}}:{hold.holder}:rwlock_timeout:1" for hold in holds}
    notes = {f"interlock_forced:{{name}}:{hold.holder}" for hold in holds}
    left = rw.left_behind()
    assert entries <= left <= entries | notes, "entries end by themselves; a note is read once"
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
    await until(lambda: rw.left_behind() == set(), 5, "the entries have ended")


async def test_the_error_of_a_with_block_names_who_is_in(rw: Stage) -> None:
    """A time-out in a with statement names the holder that was in the way, on either side."""
    client, a, b = rw.client(), rw.owner(), rw.owner()
    lock = rw.lock(client, timeout=0.05)
    for held, wanted in ((lock.write, lock.read), (lock.read, lock.write)):
        hold = await a.do(rw.face.enter, held)
        with pytest.raises(AcquireTimeoutError) as caught:
            await b.do(rw.face.enter, wanted)
        assert caught.value.holder == hold.holder
        await a.do(rw.face.leave, held)


async def test_one_word_is_one_owner_of_both_sides(rw: Stage) -> None:
    """With owner=, both sides of one word know of each other, in any thread or task.

    Another word is another owner.
    """
    client, a, b = rw.client(), rw.owner(), rw.owner()
    mine, same = rw.lock(client, owner="job 7"), rw.lock(client, owner="job 7")
    await a.do(mine.write.acquire)
    assert await b.do(same.read.acquire, timeout=0)
    assert not await a.do(rw.lock(client, owner="job 8").read.acquire, timeout=0)
    await b.do(same.write.release)
    with pytest.raises(UpgradeError):
        await a.do(mine.write.acquire)


def test_two_threads_release_one_reader(redis_url: str, redis_client: redis.Redis) -> None:
    """Of two releases of depth 2 the last one may come first; no entry of the reader stays."""
    with interlock.connect(redis_url) as client:
        lock = client.read_write_lock("name").read
        lock.acquire()
        lock.acquire()
        session = client._driver.session
        hold = session.holds.snapshot()[0]
        inner, outer = Release().of(session, hold), Release().of(session, hold)
        calls = [release.begin() for release in (inner, outer)]
        for call in reversed(calls):
            assert call is not None
            client._driver.eval(call)
        assert not own_keys(redis_client)
