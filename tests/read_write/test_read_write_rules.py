"""Who may be in: many readers or one writer, reentrant, down but not up."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import until

from interlock import HoldLostError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.read_write.wire import Wire


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
