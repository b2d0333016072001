"""Who may be in: many readers or one writer, reentrant, down but not up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import until

from interlock import AcquireTimeoutError, HoldLostError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.read_write.wire import Wire


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
