"""The types of the asyncio face, as users' type checkers see them.

This file is read by mypy and pyright, and never run.
`nox -s types` makes that of the sync face from it, for as long as they read.
"""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Never, assert_type

import interlock as face
from interlock import Options, best_effort, check
from interlock.inspection import Deadlock, LockInfo
from interlock.options import ReplicaPolicy

if TYPE_CHECKING:
    from collections.abc import Callable

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


def locking(client: face.Client) -> None:
    """Every kind of lock is a Lock, and a block gives a Hold."""
    with face.connect() as entered:
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
    assert_type(lock.acquire(timeout=SECOND, lease=5), bool)
    assert_type(lock.release(), None)
    with lock as hold:
        assert_type(hold, face.Hold)
    with client.red_lock(lock) as hold:
        assert_type(hold, face.Hold)
    assert_type(lock.locked(), bool)
    assert_type(lock.owned(), bool)
    assert_type(lock.hold_count(), int)
    assert_type(lock.remaining(), float | None)
    assert_type(lock.extend(SECOND), None)
    assert_type(lock.force_release(), bool)
    assert_type(lock.hold, face.Hold | None)
    assert_type(lock.name, str)
    lock.unlock()  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue]


def holding(client: face.Client) -> None:
    """A hold answers without a round trip."""
    with client.try_lock("name", timeout=SECOND) as hold:
        assert_type(hold, face.Hold)
    with client.lock("name") as hold:
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
    assert_type(hold.release(), None)
    assert_type(hold.extend(SECOND), None)
    ticket = hold.hand_over(lease=SECOND)
    assert_type(ticket, face.Ticket)
    assert_type(client.adopt(ticket, lease=5), face.Hold)
    assert_type(client.adopt(str(ticket)), face.Hold)


def counting(client: face.Client) -> None:
    """Semaphores and latches."""
    plain = client.semaphore("name", 5, timeout=SECOND)
    assert_type(plain, face.Semaphore)
    assert_type(plain.acquire(2, timeout=SECOND), bool)
    assert_type(plain.release(2), None)
    assert_type(plain.release_if_exists(), bool)
    assert_type(plain.try_set_permits(1), bool)
    assert_type(plain.add_permits(1), None)
    assert_type(plain.drain_permits(), int)
    assert_type(plain.available_permits(), int)
    assert_type(plain.delete(), bool)
    with plain as entered:
        assert_type(entered, face.Semaphore)
    leased = client.leased_semaphore("name", permits=5)
    assert_type(leased, face.LeasedSemaphore)
    permit = leased.acquire(1, timeout=SECOND, lease=SECOND)
    assert_type(permit, face.Permit)
    assert_type(permit.ids, tuple[str, ...])
    assert_type(permit.extend(5), None)
    assert_type(leased.try_acquire(), face.Permit | None)
    with leased.trying(2, timeout=1) as tried:
        assert_type(tried, face.Permit)
    with client.fair_lock("name").trying(timeout=1, lease=5) as held:
        assert_type(held, face.Hold)
    assert_type(leased.release(permit), None)
    assert_type(leased.extend(permit, SECOND), None)
    assert_type(leased.set_permits(1), None)
    assert_type(leased.permits(), int)
    assert_type(leased.acquired_permits(), int)
    assert_type(leased.delete(), bool)
    ticket = client.ticket("text")
    assert_type(ticket, face.Ticket)
    assert_type(ticket.extend(SECOND), None)
    assert_type(ticket.announce(60, "why", who="me", held_for=1.5), None)
    assert_type(ticket.release(), None)
    limit = client.limited("name", 5, timeout=SECOND)
    assert_type(limit, face.Limited)
    assert_type(limit.acquire(SECOND), face.Permit)
    assert_type(limit.available(), int)
    assert_type(limit.running(), int)
    with limit as permit:
        assert_type(permit, face.Permit)
    latch = client.count_down_latch("name")
    assert_type(latch, face.CountDownLatch)
    assert_type(latch.try_set_count(1), bool)
    assert_type(latch.count_down(), None)
    assert_type(latch.count(), int)
    assert_type(latch.wait(SECOND), bool)
    assert_type(latch.delete(), bool)
    event = client.event("name")
    assert_type(event, face.Event)
    assert_type(event.set(), None)
    assert_type(event.clear(), None)
    assert_type(event.is_set(), bool)
    assert_type(event.wait(SECOND), bool)
    condition = client.condition(client.fair_lock("name"), name="news")
    assert_type(condition, face.Condition)
    assert_type(condition.acquire(timeout=SECOND), bool)
    assert_type(condition.wait(SECOND), bool)
    assert_type(condition.wait_for(lambda: 1, SECOND), int)
    assert_type(condition.notify(2), None)
    assert_type(condition.notify_all(), None)
    assert_type(condition.release(), None)
    assert_type(condition.hold, face.Hold | None)
    barrier = client.barrier("name", 2, timeout=SECOND)
    assert_type(barrier, face.Barrier)
    assert_type(barrier.wait(SECOND), int)
    assert_type(barrier.parties, int)
    assert_type(barrier.n_waiting, int)
    assert_type(barrier.broken, bool)
    assert_type(barrier.abort(), None)
    assert_type(barrier.reset(), None)
    election = client.election("name", candidate="me", timeout=SECOND, lease=SECOND)
    assert_type(election, face.Election)
    leader = election.leader()
    assert_type(leader, face.LeaderInfo | None)
    if leader is not None:
        assert_type(leader.candidate, str)
        assert_type(leader.host, str)
        assert_type(leader.pid, int)
        assert_type(leader.since, int)

    def lead(term: face.Hold) -> bytes:
        return term.name.encode()

    assert_type(election.run(lead), bytes)
    assert_type(election.observe(print), face.Observation)
    with election as term:
        assert_type(term, face.Hold)


def decorating(client: face.Client) -> None:
    """A decorated function has the signature that it had."""

    @client.locked("pay:{order_id}", timeout=SECOND)
    def pay(order_id: int, *, note: str = "") -> bytes:
        return f"{order_id}{note}".encode()

    @client.single("report", min_hold=SECOND)
    def report(day: str) -> bytes:
        return day.encode()

    @client.single("report", otherwise=0)
    def counted(day: str) -> bytes:
        return day.encode()

    @client.locked("pay", if_unreachable="skip")
    def skipped() -> bytes:
        return b""

    @client.locked("pay", if_unreachable="run")
    def run() -> bytes:
        return b""

    assert_type(pay(5, note="x"), bytes)
    assert_type(skipped(), bytes | None)
    assert_type(run(), bytes)
    assert_type(report("x"), bytes | None)
    assert_type(counted("x"), bytes | int)
    assert_type(client.locked("name"), face.Locked[Never])
    assert_type(client.single("name"), face.Single[None])
    taken: Callable[[str], bytes | None] = report
    _ = taken
    _ = pay("5")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    _ = report()  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    with client.locked("name") as hold:
        assert_type(hold, face.Hold)


def closing(client: face.Client) -> None:
    """The rest of a client."""
    assert_type(client.client_id, str)
    assert_type(client.check(objects=["lock"]), check.Report)
    assert_type(client.close(), None)


def operating(client: face.Client) -> None:
    """What operators ask."""
    for lock in client.locks("orders:*", kinds=["lock"]):
        assert_type(lock, LockInfo)
    assert_type(client.describe("name"), LockInfo | None)
    assert_type(client.deadlocks(), list[Deadlock])
    assert_type(client.holds(), list[face.Hold])
