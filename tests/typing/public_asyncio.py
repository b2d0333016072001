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
    """Every kind of lock is a Lock, and a block gives a Hold."""
    async with face.connect() as entered:
        assert_type(entered, face.Client)
    lock = client.lock("name", timeout=SECOND, lease=5, reentrant=False)
    assert_type(lock, face.Lock)
    assert_type(client.fair_lock("name"), face.Lock)
    assert_type(client.fenced_lock("name"), face.Lock)
    assert_type(client.spin_lock("name"), face.Lock)
    assert_type(client.group_lock("group", ["a"]), face.Lock)
    both = client.read_write_lock("name")
    assert_type(both, face.ReadWriteLock)
    assert_type(both.read, face.Lock)
    assert_type(both.write, face.Lock)
    assert_type(client.multi_lock(lock, both.write), face.MultiLock)
    assert_type(face.RedLock(lock, timeout=SECOND), face.RedLock)
    assert_type(await lock.acquire(timeout=SECOND, lease=5), bool)
    assert_type(await lock.release(), None)
    async with lock as hold:
        assert_type(hold, face.Hold)
    async with client.red_lock(lock) as hold:
        assert_type(hold, face.Hold)
    assert_type(await lock.locked(), bool)
    assert_type(await lock.owned(), bool)
    assert_type(await lock.hold_count(), int)
    assert_type(await lock.remaining(), float | None)
    assert_type(await lock.extend(SECOND), None)
    assert_type(await lock.force_release(), bool)
    assert_type(lock.hold, face.Hold | None)
    assert_type(lock.name, str)
    lock.unlock()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


async def holding(client: face.Client) -> None:
    """A hold answers without a round trip."""
    async with client.try_lock("name", timeout=SECOND) as hold:
        assert_type(hold, face.Hold)
    async with client.lock("name") as hold:
        assert_type(hold, face.Hold)
    assert_type(hold.name, str)
    assert_type(hold.holder, str | None)
    assert_type(hold.token, int | None)
    assert_type(hold.token_source, str | None)
    assert_type(hold.replicas, int | None)
    assert_type(hold.depth, int)
    assert_type(hold.valid, bool)
    assert_type(hold.remaining, float)
    assert_type(hold.lost.is_set(), bool)
    assert_type(hold.ensure(), None)
    assert_type(hold.on_lost(print), None)
    assert_type(await hold.release(), None)
    assert_type(await hold.extend(SECOND), None)
    ticket = await hold.hand_over(lease=SECOND)
    assert_type(ticket, face.Ticket)
    assert_type(await client.adopt(ticket, lease=5), face.Hold)
    assert_type(await client.adopt(str(ticket)), face.Hold)


async def counting(client: face.Client) -> None:
    """Semaphores and latches."""
    plain = client.semaphore("name", 5, timeout=SECOND)
    assert_type(plain, face.Semaphore)
    assert_type(await plain.acquire(2, timeout=SECOND), bool)
    assert_type(await plain.release(2), None)
    assert_type(await plain.release_if_exists(), bool)
    assert_type(await plain.try_set_permits(1), bool)
    assert_type(await plain.add_permits(1), None)
    assert_type(await plain.drain_permits(), int)
    assert_type(await plain.available_permits(), int)
    assert_type(await plain.delete(), bool)
    async with plain as entered:
        assert_type(entered, face.Semaphore)
    leased = client.leased_semaphore("name", permits=5)
    assert_type(leased, face.LeasedSemaphore)
    permit = await leased.acquire(1, timeout=SECOND, lease=SECOND)
    assert_type(permit, face.Permit)
    assert_type(permit.ids, tuple[str, ...])
    assert_type(await permit.extend(5), None)
    assert_type(await leased.try_acquire(), face.Permit | None)
    async with leased.trying(2, timeout=1) as tried:
        assert_type(tried, face.Permit)
    async with client.fair_lock("name").trying(timeout=1, lease=5) as held:
        assert_type(held, face.Hold)
    assert_type(await leased.release(permit), None)
    assert_type(await leased.extend(permit, SECOND), None)
    assert_type(await leased.set_permits(1), None)
    assert_type(await leased.permits(), int)
    assert_type(await leased.acquired_permits(), int)
    assert_type(await leased.delete(), bool)
    ticket = client.ticket("text")
    assert_type(ticket, face.Ticket)
    assert_type(await ticket.extend(SECOND), None)
    assert_type(await ticket.announce(60, "why", who="me", held_for=1.5), None)
    assert_type(await ticket.release(), None)
    limit = client.limited("name", 5, timeout=SECOND)
    assert_type(limit, face.Limited)
    assert_type(await limit.acquire(SECOND), face.Permit)
    assert_type(await limit.available(), int)
    assert_type(await limit.running(), int)
    async with limit as permit:
        assert_type(permit, face.Permit)
    latch = client.count_down_latch("name")
    assert_type(latch, face.CountDownLatch)
    assert_type(await latch.try_set_count(1), bool)
    assert_type(await latch.count_down(), None)
    assert_type(await latch.count(), int)
    assert_type(await latch.wait(SECOND), bool)
    assert_type(await latch.delete(), bool)
    event = client.event("name")
    assert_type(event, face.Event)
    assert_type(await event.set(), None)
    assert_type(await event.clear(), None)
    assert_type(await event.is_set(), bool)
    assert_type(await event.wait(SECOND), bool)
    condition = client.condition(client.fair_lock("name"), name="news")
    assert_type(condition, face.Condition)
    assert_type(await condition.acquire(timeout=SECOND), bool)
    assert_type(await condition.wait(SECOND), bool)
    assert_type(await condition.wait_for(lambda: 1, SECOND), int)
    assert_type(await condition.notify(2), None)
    assert_type(await condition.notify_all(), None)
    assert_type(await condition.release(), None)
    assert_type(condition.hold, face.Hold | None)
    barrier = client.barrier("name", 2, timeout=SECOND)
    assert_type(barrier, face.Barrier)
    assert_type(await barrier.wait(SECOND), int)
    assert_type(barrier.parties, int)
    assert_type(await barrier.n_waiting, int)
    assert_type(await barrier.broken, bool)
    assert_type(await barrier.abort(), None)
    assert_type(await barrier.reset(), None)
    election = client.election("name", candidate="me", timeout=SECOND, lease=SECOND)
    assert_type(election, face.Election)
    leader = await election.leader()
    assert_type(leader, face.LeaderInfo | None)
    if leader is not None:
        assert_type(leader.candidate, str)
        assert_type(leader.host, str)
        assert_type(leader.pid, int)
        assert_type(leader.since, int)

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


async def closing(client: face.Client) -> None:
    """The rest of a client."""
    assert_type(client.client_id, str)
    assert_type(await client.check(objects=["lock"]), check.Report)
    assert_type(await client.close(), None)


async def operating(client: face.Client) -> None:
    """What operators ask."""
    async for lock in client.locks("orders:*", kinds=["lock"]):
        assert_type(lock, LockInfo)
    assert_type(await client.describe("name"), LockInfo | None)
    assert_type(await client.deadlocks(), list[Deadlock])
    assert_type(client.holds(), list[face.Hold])
