"""Lost replies, copies and cancellation on a real server.

Every depth is what its owner believes, and nothing is left behind.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, get_args

import pytest
from tests.lock.interrupting import Moment, Points
from tests.lock.lock_like import queued, until
from tests.support.cards import own_keys
from tests.support.faults import FAULTS
from tests.support.proxy import (
    command,
    drop_request,
    swallow_reply,
)

import interlock.asyncio
from interlock import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis
    from tests.lock.lock_like import Stage
    from tests.read_write.wire import Wire
    from tests.support.proxy import Action, FaultProxy

READS, WRITES = ["read"], ["write"]
CALLS: dict[str, tuple[list[str], Callable[[Any], Any], tuple[int, int]]] = {
    "read": ([], lambda lock: lock.read.acquire(), (1, 0)),
    "read-again": (READS, lambda lock: lock.read.acquire(), (2, 0)),
    "read-while-writing": (WRITES, lambda lock: lock.read.acquire(), (1, 1)),
    "write": ([], lambda lock: lock.write.acquire(), (0, 1)),
    "write-again": (WRITES, lambda lock: lock.write.acquire(), (0, 2)),
    "stop-reading": (READS, lambda lock: lock.read.release(), (0, 0)),
    "read-less": (READS * 2, lambda lock: lock.read.release(), (1, 0)),
    "stop-reading-while-writing": (WRITES + READS, lambda lock: lock.read.release(), (0, 1)),
    "stop-writing": (WRITES, lambda lock: lock.write.release(), (0, 0)),
    "come-down": (WRITES + READS, lambda lock: lock.write.release(), (1, 0)),
    "extend-reading": (READS, lambda lock: lock.read.extend(60), (1, 0)),
    "extend-writing": (WRITES, lambda lock: lock.write.extend(60), (0, 1)),
}
"""What is held before, what is called, and how deep it is read and written then."""


@pytest.mark.parametrize("fault", FAULTS.values(), ids=FAULTS)
@pytest.mark.parametrize("call", CALLS)
async def test_a_call_counts_once(
    rw: Stage, wire: Wire, proxy: FaultProxy, call: str, fault: Action
) -> None:
    """Whatever happens to a request or reply, the depths are right and releases leave nothing."""
    before, make, (reading, writing) = CALLS[call]
    owner, lock = rw.owner(), rw.lock(rw.client(proxy.url(), command_timeout=0.8))
    await owner.do(lock.read.locked)
    for side in before:
        await owner.do(getattr(lock, side).acquire)
    proxy.on_request(command("EVALSHA", nth=1), fault)
    await owner.do(make, lock)
    assert len(proxy.fired) == 1
    fields = wire.hash()
    fields.pop("mode", None)
    assert sorted(fields.values()) == sorted(str(n) for n in (reading, writing) if n)
    for side, depth in ((lock.read, reading), (lock.write, writing)):
        assert await owner.do(side.hold_count) == depth
        for _ in range(depth):
            await owner.do(side.release)
    assert rw.left_behind() == set()


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


KEPT = {"read-while-writing": (0, 1), "come-down": (1, 0)}
"""How deep a task whose call was cancelled still reads and writes."""


@pytest.mark.parametrize("moment", get_args(Moment))
@pytest.mark.parametrize("call", ["read", "read-while-writing", "write", "come-down"])
async def test_cancelled_anywhere(
    redis_url: str, redis_client: redis.Redis, moment: Moment, call: str
) -> None:
    """A cancelled acquire holds nothing, and a cancelled release is finished.

    The task keeps what else it holds.
    """
    before, make, _ = CALLS[call]
    for at in range(60):
        async with interlock.asyncio.connect(redis_url) as client:
            lock = client.read_write_lock("name", owner="one")
            for side in before:
                await getattr(lock, side).acquire()
            points = Points(at, moment)
            task = asyncio.create_task(_run(points, make(lock)))
            try:
                await asyncio.wait_for(asyncio.shield(task), 10)
            except asyncio.CancelledError:
                assert points.reached
            if not points.reached:
                break
            kept = KEPT.get(call, (0, 0))

            async def settled(lock: Any = lock, kept: Any = kept) -> bool:
                return (await lock.read.locked(), await lock.write.locked()) == kept

            await until(settled, 3, "it was undone or carried through")
            assert (await lock.read.hold_count(), await lock.write.hold_count()) == kept
        assert not own_keys(redis_client)
    else:
        raise AssertionError("it never ends")
    assert at > 0


async def _run(points: Points, coroutine: Any) -> None:
    await points.run(coroutine)


async def test_cancelled_waiters(rw: Stage, proxy: FaultProxy) -> None:
    """Waiting readers and writers that are cancelled leave nothing, and those behind them enter."""
    async with interlock.asyncio.connect(proxy.url(), poll_cap=30) as client:
        lock, owner = rw.lock(rw.client()), rw.owner()
        await owner.do(lock.write.acquire)
        mine = client.read_write_lock("name")
        waiting = [
            asyncio.create_task(side.acquire())
            for side in (mine.read, mine.write, mine.read, mine.write, mine.read)
        ]
        await queued(client, count=5)
        for task in waiting[:4]:
            task.cancel()
        assert not waiting[4].done()
        await owner.do(lock.write.release)
        assert await asyncio.wait_for(waiting[4], 20)
        results = await asyncio.gather(*waiting[:4], return_exceptions=True)
        assert {type(result) for result in results} == {asyncio.CancelledError}
        assert await mine.read.locked()
    assert rw.left_behind() == set()
