"""Lost replies, copies and cancellation on a real server.

Every depth is what its owner believes, and nothing is left behind.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

import pytest
from tests.lock.lock_like import until
from tests.support.proxy import (
    command,
    drop_request,
    swallow_reply,
)

from interlock import ServerUnavailableError

if TYPE_CHECKING:
    from tests.lock.lock_like import Stage
    from tests.read_write.wire import Wire
    from tests.support.proxy import Action, FaultProxy


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
