"""The types of the asyncio face, as users' type checkers see them.

This file is read by mypy and pyright, and never run.
`nox -s types` makes that of the sync face from it, for as long as they read.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Never, assert_type

import interlock.asyncio as face
from interlock import Options, best_effort, check
from interlock.inspection import Deadlock, LockInfo
from interlock.options import ReplicaPolicy

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine
    from typing import Any

SECOND = timedelta(seconds=1)


def connecting() -> None:
    """Options are typed, and complete themselves in editors."""
    assert_type(face.connect(), face.Client)
    assert_type(face.connect("valkey://h", lease=SECOND, pubsub="off"), face.Client)
    assert_type(face.connect(options=Options(lease=1.5, replicas=best_effort(1))), face.Client)
    assert_type(face.Client.from_redis(object(), prefix="acme:"), face.Client)
    assert_type(Options().lease, float)
    assert_type(Options(lease=SECOND).replace(lease=5), Options)
    assert_type(best_effort("all", SECOND), ReplicaPolicy)
    _ = face.connect(leese=5)  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    _ = face.connect(lease="5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    _ = Options(pubsub="loud")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]


async def locking(client: face.Client) -> None:
    """Every lock is a Lock, a block gives a Hold, and durations may be timedeltas."""
    async with face.connect() as entered:
        assert_type(entered, face.Client)
    lock = client.lock("name", timeout=SECOND, lease=5, reentrant=False)
    assert_type(lock, face.Lock)
    assert_type(client.read_write_lock("name").read, face.Lock)
    assert_type(client.multi_lock(lock, client.fair_lock("name")), face.MultiLock)
    assert_type(face.RedLock(lock, timeout=SECOND), face.RedLock)
    assert_type(await lock.acquire(timeout=SECOND, lease=5), bool)
    assert_type(await lock.remaining(), float | None)
    assert_type(lock.hold, face.Hold | None)
    async with lock as hold:
        assert_type(hold, face.Hold)
    async with client.red_lock(lock) as hold:
        assert_type(hold, face.Hold)
    async with client.try_lock("name", timeout=SECOND) as hold:
        assert_type(hold, face.Hold)
    async with lock.trying(timeout=1, lease=5) as hold:
        assert_type(hold, face.Hold)
    assert_type(hold.token, int | None)
    assert_type(hold.lost.is_set(), bool)
    ticket = await hold.hand_over(lease=SECOND)
    assert_type(ticket, face.Ticket)
    assert_type(await client.adopt(str(ticket), lease=5), face.Hold)
    lock.unlock()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


async def counting(client: face.Client) -> None:
    """A block gives what it took, and a result has the type of what makes it."""
    async with client.semaphore("name", 5, timeout=SECOND) as entered:
        assert_type(entered, face.Semaphore)
    leased = client.leased_semaphore("name", permits=5)
    assert_type(await leased.acquire(1, timeout=SECOND, lease=SECOND), face.Permit)
    assert_type(await leased.try_acquire(), face.Permit | None)
    async with leased.trying(2, timeout=1) as permit:
        assert_type(permit, face.Permit)
    async with client.limited("name", 5, timeout=SECOND) as permit:
        assert_type(permit, face.Permit)
    assert_type(await client.event("name").wait(SECOND), bool)
    condition = client.condition(client.fair_lock("name"), name="news")
    assert_type(await condition.wait_for(lambda: 1, SECOND), int)
    barrier = client.barrier("name", 2, timeout=SECOND)
    assert_type(await barrier.n_waiting, int)
    election = client.election("name", candidate="me", timeout=SECOND, lease=SECOND)
    assert_type(await election.leader(), face.LeaderInfo | None)

    async def lead(term: face.Hold) -> bytes:
        return term.name.encode()

    assert_type(await election.run(lead), bytes)
    assert_type(election.observe(print), face.Observation)
    async with election as term:
        assert_type(term, face.Hold)


async def decorating(client: face.Client) -> None:
    """A decorated function has the signature that it had."""

    @client.locked("pay:{order_id}", timeout=SECOND)
    async def pay(order_id: int, *, note: str = "") -> bytes:
        return f"{order_id}{note}".encode()

    @client.single("report", min_hold=SECOND)
    async def report(day: str) -> bytes:
        return day.encode()

    @client.single("report", otherwise=0)
    async def counted(day: str) -> bytes:
        return day.encode()

    @client.locked("pay", if_unreachable="skip")
    async def skipped() -> bytes:
        return b""

    @client.locked("pay", if_unreachable="run")
    async def run() -> bytes:
        return b""

    assert_type(await pay(5, note="x"), bytes)
    assert_type(await skipped(), bytes | None)
    assert_type(await run(), bytes)
    assert_type(await report("x"), bytes | None)
    assert_type(await counted("x"), bytes | int)
    assert_type(client.locked("name"), face.Locked[Never])
    assert_type(client.single("name"), face.Single[None])
    taken: Callable[[str], Coroutine[Any, Any, bytes | None]] = report
    _ = taken
    _ = await pay("5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    _ = await report()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]


async def operating(client: face.Client) -> None:
    """What operators ask."""
    assert_type(await client.check(objects=["lock"]), check.Report)
    async for lock in client.locks("orders:*", kinds=["lock"]):
        assert_type(lock, LockInfo)
    assert_type(await client.describe("name"), LockInfo | None)
    assert_type(await client.deadlocks(), list[Deadlock])
