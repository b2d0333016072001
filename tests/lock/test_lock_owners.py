"""Who has it: acquire and release of every lock-like, on both faces."""

from __future__ import annotations

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import KINDS, loss_of, renewed, until

import interlock
from interlock import ClosedError, HoldLostError, NotHeldError, ReentryError

if TYPE_CHECKING:
    from collections.abc import Callable

    from tests.lock.lock_like import Stage
    from tests.support.proxy import FaultProxy

    from interlock import Client

SLACK = 8.0
"""Seconds that a busy machine may take for next to nothing."""
RE_ENTERED = [kind for kind in KINDS if kind.reentrant]


async def test_the_owner_knows_that_it_holds(stage: Stage) -> None:
    """A held lock is locked, owned at depth 1, and ends within its lease; then nothing is left."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    assert await owner.do(lock.acquire) is True
    assert await owner.do(lock.locked)
    assert await owner.do(lock.owned)
    assert await owner.do(lock.hold_count) == 1
    assert 15 < await owner.do(lock.remaining) <= 30
    await owner.do(lock.release)
    assert not await owner.do(lock.locked)
    assert not await owner.do(lock.owned)
    assert await owner.do(lock.hold_count) == 0
    assert await owner.do(lock.remaining) is None
    assert stage.left_behind() == set()


@pytest.mark.parametrize("same_client", [True, False], ids=["same-client", "another-client"])
async def test_no_other_owner_gets_it(stage: Stage, same_client: bool) -> None:
    """B cannot take A's lock, from the same client or another; after A's release B gets it."""
    client = stage.client()
    a, mine = stage.owner(), stage.lock(client)
    b, theirs = stage.owner(), stage.lock(client if same_client else stage.client())
    assert await a.do(mine.acquire)
    assert await b.do(theirs.acquire, timeout=0) is False
    assert await b.do(theirs.acquire, blocking=False) is False
    assert await b.do(theirs.locked)
    assert not await b.do(theirs.owned)
    assert await b.do(theirs.hold_count) == 0
    await a.do(mine.release)
    assert await b.do(theirs.acquire, timeout=0)
    assert not await a.do(mine.owned)
    await b.do(theirs.release)
    assert stage.left_behind() == set()


async def test_the_owner_enters_again(stage: Stage) -> None:
    """Each acquire by the owner goes one deeper, each release one up; the last one frees.

    A lock that is not reentrant refuses its owner.
    """
    lock, owner, other = stage.lock(stage.client()), stage.owner(), stage.owner()
    await owner.do(lock.acquire)
    if not stage.kind.reentrant:
        with pytest.raises(ReentryError):
            await owner.do(lock.acquire)
        with pytest.raises(ReentryError):
            await owner.do(lock.acquire, timeout=0)
        assert await owner.do(lock.hold_count) == 1
        return
    for depth in (2, 3):
        assert await owner.do(lock.acquire, timeout=0)
        assert await owner.do(lock.hold_count) == depth
    for depth in (2, 1):
        await owner.do(lock.release)
        assert await owner.do(lock.hold_count) == depth
        assert not await other.do(lock.acquire, timeout=0)
    await owner.do(lock.release)
    assert stage.left_behind() == set()


@pytest.mark.parametrize(
    "kind",
    [kind for kind in KINDS if not kind.reentrant],
    indirect=True,
    ids=lambda kind: kind.name,
)
async def test_one_that_is_not_reentrant_refuses_without_asking(
    proxy: FaultProxy, stage: Stage
) -> None:
    """Taken again by its owner, it raises at once, changes nothing and sends nothing."""
    lock, owner = stage.lock(stage.client(proxy.url())), stage.owner()
    await owner.do(lock.acquire)
    before = stage.redis.dump("name"), stage.left_behind()
    proxy.clear_record()
    with pytest.raises(ReentryError):
        await owner.do(lock.acquire)
    assert proxy.record == []
    assert (stage.redis.dump("name"), stage.left_behind()) == before
    await owner.do(lock.release)


async def test_only_the_owner_releases(stage: Stage) -> None:
    """A release by anyone but the owner, or one too many, is a RuntimeError and changes nothing."""
    lock, owner, other = stage.lock(stage.client()), stage.owner(), stage.owner()
    for stranger in (owner, other):
        with pytest.raises(NotHeldError, match="nothing was changed"):
            await stranger.do(lock.release)
    await owner.do(lock.acquire)
    with pytest.raises(RuntimeError):
        await other.do(lock.release)
    with pytest.raises(NotHeldError):
        await other.do(lock.extend, 60)
    assert await owner.do(lock.hold_count) == 1
    assert await owner.do(lock.remaining) <= 30
    await owner.do(lock.release)
    with pytest.raises(NotHeldError):
        await owner.do(lock.release)


async def test_a_timeout_is_kept(stage: Stage) -> None:
    """With timeout=0.010 a held lock is not acquired, after at least 10 ms and not much more."""
    client = stage.client()
    lock, a, b = stage.lock(client), stage.owner(), stage.owner()
    await a.do(lock.acquire)
    for held_by_another in (stage.lock(client), stage.lock(stage.client())):
        await b.do(held_by_another.locked)  # the connection is there
        started = time.monotonic()
        assert await b.do(held_by_another.acquire, timeout=0.010) is False
        assert 0.010 <= time.monotonic() - started < 0.010 + SLACK


@pytest.mark.parametrize("same_client", [True, False], ids=["same-client", "another-client"])
async def test_a_waiter_gets_it_on_release(stage: Stage, same_client: bool) -> None:
    """Who waits has it promptly after the release, well before the poll cap."""
    client = stage.client(poll_cap=30)
    a, mine = stage.owner(), stage.lock(client)
    b, theirs = (
        stage.owner(),
        stage.lock(client if same_client else stage.client(poll_cap=30)),
    )
    await a.do(mine.acquire)
    waiting = asyncio.create_task(b.do(theirs.acquire))
    await stage.waits()
    assert not waiting.done()
    released = time.monotonic()
    await a.do(mine.release)
    assert await asyncio.wait_for(waiting, 20)
    assert time.monotonic() - released < SLACK
    await b.do(theirs.release)
    assert stage.left_behind() == set()


async def test_a_lease_ends_by_itself(stage: Stage) -> None:
    """With lease=1 another client gets the lock when the lease ends, and not before."""
    lock, theirs = stage.lock(stage.client()), stage.lock(stage.client(poll_cap=30))
    a, b = stage.owner(), stage.owner()
    await b.do(theirs.locked)
    sent = time.monotonic()
    await a.do(lock.acquire, lease=1)
    hold = await a.do(lambda: lock.hold)
    assert hold.remaining <= 1
    assert await b.do(theirs.acquire, timeout=20)
    assert 1 <= time.monotonic() - sent < 1 + 2 * SLACK
    assert not hold.valid
    with pytest.raises(HoldLostError):
        await a.do(lock.release)
    assert await b.do(theirs.owned), "a late release frees nothing of the next holder's"


@pytest.mark.parametrize("kind", RE_ENTERED, indirect=True, ids=lambda kind: kind.name)
async def test_a_lease_ends_all_entries(stage: Stage) -> None:
    """A second entry keeps the hold at depth 2 until its lease ends; then it is all over."""
    lock, theirs = stage.lock(stage.client()), stage.lock(stage.client(poll_cap=30))
    a, b = stage.owner(), stage.owner()
    shortened = stage.kind.name in ("lock", "fair", "fenced", "spin")
    for _ in range(2):
        await a.do(lock.acquire, lease=30 if shortened else 5)
    hold = await a.do(lambda: lock.hold)
    assert await a.do(lock.hold_count) == 2
    assert hold.valid
    if shortened:
        await a.do(hold.set_lease, 1)
    assert await b.do(theirs.acquire, timeout=20)
    assert not hold.valid
    with pytest.raises(HoldLostError):
        await a.do(lock.release)
    assert await b.do(theirs.owned), "a late release frees nothing of the next holder's"


async def test_a_hold_without_lease_is_renewed(stage: Stage) -> None:
    """The watchdog prolongs a lock again and again, for as long as it is held."""
    client = stage.client(renewed="soon")
    lock, theirs = stage.lock(client), stage.lock(stage.client())
    a, b = stage.owner(), stage.owner()
    await b.do(theirs.locked)  # it is connected
    await a.do(lock.acquire)
    hold = await a.do(lambda: lock.hold)
    for _ in range(3):
        await renewed(hold)
    assert not await b.do(theirs.acquire, timeout=1)
    assert hold.valid
    assert not hold.lost.is_set()
    assert 0 < hold.remaining <= 30
    assert await a.do(lock.hold_count) == 1
    await a.do(lock.release)
    # A red lock may still give back what the other one was granted too late.
    await until(lambda: stage.left_behind() == set(), 10, "nothing is left")


async def test_a_new_hold_survives_what_settles_a_lost_one(stage: Stage) -> None:
    """A hold that is acquired right after a loss stays: nothing late ends it."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    await owner.do(lock.acquire, lease=0.3)
    hold = await owner.do(lambda: lock.hold)
    await until(hold.lost.is_set, 5, "the lease has ended")
    with pytest.raises(HoldLostError):
        await owner.do(lock.release)
    await owner.do(lock.acquire)
    await asyncio.sleep(0.4)  # a late undoing would come within the lost lease
    assert await owner.do(lock.owned)
    await owner.do(lock.release)


async def test_a_lock_may_be_left_to_its_lease(stage: Stage) -> None:
    """An owner who lets the lease that he chose run out acquires anew, as in a rate limit."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    for _ in range(2):
        assert await owner.do(lock.acquire, timeout=5, lease=0.2)
        hold = await owner.do(lambda: lock.hold)
        await until(hold.lost.is_set, 5, "the lease has ended")
    assert await owner.do(lock.acquire, timeout=5)
    await owner.do(lock.release)
    # A server may count a lease from later than the client. So the hold before may still have a
    # member of a red lock. Then the last hold has only the other two.
    await until(lambda: not stage.left_behind(), 5, "the lease has ended on each server")


async def test_the_handle_of_a_lost_hold_does_not_end_the_next_one(stage: Stage) -> None:
    """Releasing a lost hold by its handle raises, and does not end its owner's next hold."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    await owner.do(lock.acquire, lease=0.3)
    lost = await owner.do(lambda: lock.hold)
    await until(lost.lost.is_set, 5, "the lease has ended")
    with pytest.raises(HoldLostError):
        await owner.do(lock.release)
    await owner.do(lock.acquire)
    with pytest.raises(HoldLostError):
        await owner.do(lost.release)
    assert await owner.do(lock.owned)
    await owner.do(lock.release)


async def test_extend_lengthens_and_never_shortens(stage: Stage) -> None:
    """After extend at least that time is left, here and on the server; extend never shortens it."""
    lock, owner = stage.lock(stage.client()), stage.owner()
    await owner.do(lock.acquire, lease=30)
    hold = await owner.do(lambda: lock.hold)
    await owner.do(lock.extend, 100)
    assert 60 < await owner.do(lock.remaining) <= 100
    assert 60 < hold.remaining <= 100
    await owner.do(lock.extend, 2)
    assert 60 < await owner.do(lock.remaining) <= 100
    await owner.do(lock.release)
    assert stage.left_behind() == set()


async def test_force_release_frees_it_for_the_next(stage: Stage) -> None:
    """Anyone may free a lock: a waiter gets it, and the former holder is told.

    The former holder cannot release it any more.
    """
    lock, theirs = stage.lock(stage.client(lease=4.5)), stage.lock(stage.client(poll_cap=30))
    a, b, c = stage.owner(), stage.owner(), stage.owner()
    await a.do(lock.acquire)
    hold = await a.do(lambda: lock.hold)
    waiting = asyncio.create_task(b.do(theirs.acquire))
    await stage.waits()
    assert await c.do(theirs.force_release) is True
    assert await asyncio.wait_for(waiting, 20)
    await until(lambda: "force-released" in loss_of(hold), 10, "the former holder is told")
    assert hold.lost.is_set()
    assert not hold
    with pytest.raises(HoldLostError, match="force-released"):
        await a.do(lock.release)
    assert await b.do(theirs.owned)
    await b.do(theirs.release)
    assert await c.do(theirs.force_release) is False


def test_a_forced_release_is_no_loss_of_who_comes_next(redis_url: str) -> None:
    """Another thread of the same client may have the lock before the answer has been read."""
    make: list[Callable[[Client], Any]] = [
        lambda client: client.lock("name"),
        lambda client: client.fenced_lock("name"),
        lambda client: client.fair_lock("name"),
        lambda client: client.read_write_lock("name").write,
        lambda client: client.read_write_lock("name").read,
        lambda client: client.group_lock("name", ["a", "b"]),
    ]
    for lock_of in make:
        with interlock.connect(redis_url) as client, ThreadPoolExecutor(2) as pool:
            lock = lock_of(client)

            def hold(lock: Any = lock) -> Any:
                lock.acquire()
                return lock.hold

            former = pool.submit(hold).result()
            operation = lock._core.force_release()
            call = next(operation)
            while not call.script.name.endswith("force_release"):  # it asks who holds the lock
                call = operation.send(lock._driver.eval(call))
            answer = lock._driver.eval(call)
            lock.acquire()
            with pytest.raises(StopIteration):
                operation.send(answer)
            assert former.lost.is_set()
            assert lock.owned()
            lock.release()


async def test_close_releases_and_ends_all(stage: Stage) -> None:
    """Closing a client frees its locks, ends its waits by ClosedError, and refuses later calls."""
    client, other = stage.client(), stage.client()
    lock, theirs = stage.lock(client), stage.lock(other)
    a, b, c = stage.owner(), stage.owner(), stage.owner()
    await a.do(lock.acquire)
    local = asyncio.create_task(b.do(lock.acquire))
    remote = asyncio.create_task(c.do(theirs.acquire))
    await stage.waits(2)
    await stage.close(client)
    await stage.close(client)
    with pytest.raises(ClosedError):
        await asyncio.wait_for(local, 20)
    assert await asyncio.wait_for(remote, 20)
    for call in (lock.acquire, lock.locked, lock.force_release):
        with pytest.raises(ClosedError):
            await a.do(call)
    await c.do(theirs.release)
    assert stage.left_behind() == set()
