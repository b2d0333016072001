"""A multi lock over all nodes of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import renewed, until

from interlock import AcquireTimeoutError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage


async def test_multi_lock_over_all_nodes(plain: Stage) -> None:
    """Forty locks on all primaries are taken as one, renewed, refused to another, and released."""
    client, other = plain.client(lease=4), plain.client()
    names = [f"name {number}" for number in range(40)]
    ours = client.multi_lock(*map(client.lock, names))
    theirs = other.multi_lock(*map(other.lock, reversed(names)), timeout=0.5)
    holder, waiter = plain.owner(), plain.owner()
    assert await holder.do(ours.acquire)
    await renewed(await holder.do(lambda: ours.hold))
    assert await holder.do(ours.owned)
    # All of its connections are there before a time that is short for forty.
    assert await waiter.do(theirs.locked)
    with pytest.raises(AcquireTimeoutError):
        await waiter.do(plain.face.enter, theirs)
    await holder.do(ours.release)
    assert await waiter.do(theirs.acquire, timeout=5)
    await waiter.do(theirs.release)
    await until(lambda: not plain.left_behind(), 5, "nothing is left")
