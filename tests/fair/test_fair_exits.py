"""Whichever way a waiter goes, its place goes with it, and the next one is told."""

from __future__ import annotations

import asyncio
import contextlib
import threading
import time
from typing import TYPE_CHECKING, get_args

import pytest
from tests.fair.places import LOCK, Places
from tests.lock.children import Child
from tests.lock.interrupting import Blow, Moment, Points, interrupt_after
from tests.lock.lock_like import queued, until
from tests.support.cards import own_keys
from tests.support.proxy import command, delay_reply, drop_reply, drop_request, swallow_reply
from tests.support.servers import wait_until

import interlock
import interlock.asyncio
from interlock import AcquireTimeoutError, ClosedError, ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Callable

    import redis
    from tests.lock.lock_like import Stage
    from tests.support.proxy import Action, FaultProxy
    from tests.support.servers import RedisServer

ENOUGH = 40
"""No operation waits at as many points as this."""


async def test_a_timeout(fair: Stage) -> None:
    """A waiter that gives up is out of the queue when it says so, wherever it stood.

    This holds for both ways of asking.
    """
    holder, wire, client = fair.owner(), Places(fair.redis), fair.client()
    await holder.do(client.fair_lock(LOCK).acquire)
    other = asyncio.create_task(fair.owner().do(client.fair_lock(LOCK).acquire))
    await until(lambda: len(wire.waiting) == 1, 5, "another waits")
    queue = wire.waiting
    one, two = fair.owner(), fair.owner()
    assert not await one.do(client.fair_lock(LOCK).acquire, timeout=0.3)
    assert wire.waiting == queue
    with pytest.raises(AcquireTimeoutError):
        await two.do(fair.face.enter, client.fair_lock(LOCK, timeout=0.2))
    assert wire.waiting == queue
    assert set(wire.left) == set(queue)
    await holder.do(client.fair_lock(LOCK).release)
    assert await asyncio.wait_for(other, 20)


async def test_the_first_one_gives_up_at_a_free_lock(fair: Stage) -> None:
    """When the first waiter gives up though the lock is free, the next one has it at once."""
    wire, client = Places(fair.redis), fair.client()
    wire.has("gone")
    first = asyncio.create_task(fair.owner().do(client.fair_lock(LOCK).acquire, timeout=2))
    await until(lambda: len(wire.waiting) == 1, 5, "the first waits")
    second = asyncio.create_task(fair.owner().do(client.fair_lock(LOCK).acquire))
    await until(lambda: len(wire.waiting) == 2, 5, "the second waits")
    with wire.told() as messages:
        assert not await first
        fair.redis.delete(LOCK)
        # The lock became free without a word, and the second one is now the first.
        assert await asyncio.wait_for(second, 20)
    assert messages == []
    assert wire.waiting == []


async def test_closing_the_client(fair: Stage) -> None:
    """A client that closes takes all its waiters out of the queue, in the same breath."""
    holder, wire, client = fair.owner(), Places(fair.redis), fair.client()
    await holder.do(fair.client().fair_lock(LOCK).acquire)
    owners = [fair.owner() for _ in range(5)]
    tasks = [asyncio.create_task(each.do(client.fair_lock(LOCK).acquire)) for each in owners]
    await until(lambda: len(wire.waiting) == 5, 5, "all wait")
    await fair.close(client)
    assert wire.waiting == []
    assert wire.left == {}
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)
    assert {type(outcome) for outcome in outcomes} == {ClosedError}


def test_ctrl_c(redis_url: str, redis_client: redis.Redis) -> None:
    """KeyboardInterrupt in a waiting acquire leaves no place and no subscription."""
    wire = Places(redis_client)
    with interlock.connect(redis_url) as client:
        client.fair_lock(LOCK, owner="other").acquire()
        with pytest.raises(KeyboardInterrupt), interrupt_after(0.4):
            client.fair_lock(LOCK).acquire()
        assert wire.waiting == []
        assert wire.left == {}
        wait_until(lambda: redis_client.pubsub_channels() == [], 5, "nobody listens any more")


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.usefixtures("patient")  # a hundred short tries
def test_ctrl_c_anywhere_in_a_wait(redis_url: str, redis_client: redis.Redis) -> None:
    """Ctrl-C at any point of a wait leaves no place.

    If it strikes between two steps of the driver, the place goes at its deadline.
    """
    wire, blow, late = Places(redis_client), Blow(1), []
    with interlock.connect(redis_url, fair_wait=1) as client:
        client.fair_lock(LOCK, owner="other").acquire()
        lock = client.fair_lock(LOCK)
        while blow.struck:
            with contextlib.suppress(KeyboardInterrupt), blow:
                assert not lock.acquire(timeout=0.01)
            if wire.waiting and not _soon(lambda: not wire.waiting):
                late.append(str(blow))
                wait_until(
                    lambda: not wire.has("next", enqueue=False) and not wire.waiting, 5, late[-1]
                )
            assert not wire.left
            blow = blow.next()
    assert blow.at > 100
    assert len(late) < blow.at / 20, late


def _soon(condition: Callable[[], bool]) -> bool:
    try:
        wait_until(condition, 1, "it is so")
    except TimeoutError:
        return False
    return True


@pytest.mark.parametrize("moment", get_args(Moment))
async def test_cancellation_at_every_wait(
    redis_url: str, redis_client: redis.Redis, moment: Moment
) -> None:
    """An acquire that is cancelled at any wait leaves no place; the next waiter gets the lock."""
    wire = Places(redis_client)
    async with interlock.asyncio.connect(redis_url, fair_wait=30) as other:
        for at in range(ENOUGH):
            async with interlock.asyncio.connect(redis_url, fair_wait=30) as client:
                await other.fair_lock(LOCK, owner="other").acquire()
                points = Points(at, moment)
                waiting = asyncio.create_task(_acquire(points, client))
                await until(lambda t=waiting: wire.waiting or t.done(), 5, "it waits, or not")
                behind = asyncio.create_task(other.fair_lock(LOCK).acquire())
                await queued(other)
                await other.fair_lock(LOCK, owner="other").release()
                with contextlib.suppress(asyncio.CancelledError):
                    await asyncio.wait_for(waiting, 10)
                assert await asyncio.wait_for(behind, 20), f"cancelled at wait {at}"
                assert wire.waiting == []
                assert await other.fair_lock(LOCK).force_release()
            await until(
                lambda n=at: _requests(redis_client) == n + 1 and not own_keys(redis_client),
                *(3, f"only the answers to forced releases are left after wait {at}"),
            )
            if not points.reached:
                break
        assert 3 <= at < ENOUGH - 1


def _requests(redis_client: redis.Redis) -> int:
    """Return how many answers to forced releases the server remembers for a while."""
    found = list(redis_client.scan_iter(f"interlock_request:{{{LOCK}}}:*"))
    assert all(0 < redis_client.pttl(key) <= 42_000 for key in found)
    return len(found)


async def _acquire(points: Points, client: interlock.asyncio.Client) -> None:
    lock = client.fair_lock(LOCK)
    await points.run(lock.acquire())
    await lock.release()


def test_the_end_of_the_program(redis_url: str, redis_client: redis.Redis) -> None:
    """A program that ends while a daemon thread of it waits takes that one out of the queue."""
    code = """
    client = interlock.connect(url, fair_wait=30)
    threading.Thread(target=client.fair_lock("orders").acquire, daemon=True).start()
    sys.stdin.readline()
    """
    wire = Places(redis_client)
    wire.has("other")
    with Child(code, redis_url) as child:
        wait_until(lambda: len(wire.waiting) == 1, 10, "it waits")
        child.tell()
        assert child.end() == (0, "")
        assert wire.waiting == []
        assert wire.left == {}


LOST = {
    "request": drop_request,
    "reply": drop_reply,
    "reply, silently": swallow_reply,
    "reply, for a while": delay_reply(1.1),
}


@pytest.mark.parametrize("nth", [1, 2, 3])
@pytest.mark.parametrize("fault", LOST.values(), ids=LOST)
async def test_lost_replies(proxy: FaultProxy, fair: Stage, fault: Action, nth: int) -> None:
    """Whichever request or reply is lost, a waiter keeps its place and gets the lock once.

    It leaves nothing behind.
    """
    wire = Places(fair.redis)
    client = fair.client(proxy.url(), command_timeout=0.8)
    wire.has("other")
    proxy.on_request(command("EVALSHA", nth=nth), fault)
    owner = fair.owner()
    waiting = asyncio.create_task(owner.do(client.fair_lock(LOCK).acquire, timeout=20))
    await until(lambda: len(wire.waiting) == 1, 5, "it waits")
    assert not wire.has("behind")
    await asyncio.sleep(0.3)  # what is sent again has come
    assert len(wire.waiting) == 2
    wire.release("other")
    assert await asyncio.wait_for(waiting, 20)
    assert wire.waiting == ["behind"]
    assert list(wire.holders.values()) == [1]
    await owner.do(client.fair_lock(LOCK).release)
    assert wire.has("behind")
    wire.release("behind")
    await until(lambda: not own_keys(fair.redis), 3, "nothing is left")
    assert len(proxy.fired) == 1


@pytest.mark.parametrize("fault", [drop_request, drop_reply])
async def test_a_waiter_that_cannot_leave_in_time(
    proxy: FaultProxy, fair: Stage, fault: Action
) -> None:
    """If leaving fails, the waiter returns in time; its place is given back in the background."""
    wire, owner = Places(fair.redis), fair.owner()
    client = fair.client(proxy.url(), fair_wait=30)
    wire.has("other")
    # A waiter leaves when its time is over, whether or not the test has had its turn meanwhile.
    proxy.on_request(command("EVALSHA", wire.leaving), fault)
    assert not await asyncio.wait_for(owner.do(client.fair_lock(LOCK).acquire, timeout=2), 20)
    assert proxy.fired, "it stood in the queue"
    proxy.clear_rules()
    await until(lambda: not wire.waiting and not wire.left, 5, "its place is given back")


async def test_an_outage(fresh_server: RedisServer, face: object) -> None:
    """A waiter fails after too long an outage; its place is gone when the server is back."""
    url = fresh_server.url()
    async with interlock.asyncio.connect(
        url, fair_wait=30, command_timeout=0.8, outage_timeout=0.8
    ) as client:
        with fresh_server.client() as redis_client:
            wire = Places(redis_client)
            wire.has("other")
            waiting = asyncio.create_task(client.fair_lock(LOCK).acquire())
            await until(lambda: len(wire.waiting) == 1, 5, "it waits")
            fresh_server.pause()
            try:
                with pytest.raises(ServerUnavailableError):
                    await asyncio.wait_for(waiting, 30)
            finally:
                fresh_server.resume()
            await until(lambda: not wire.waiting and not wire.left, 5, "its place is gone")


async def test_an_unreachable_server(proxy: FaultProxy, fair: Stage) -> None:
    """A waiter that reaches no server fails; its place is given back when it reaches one again."""
    wire, owner = Places(fair.redis), fair.owner()
    client = fair.client(proxy.url(), fair_wait=30, outage_timeout=0.6, poll_cap=0.5)
    wire.has("other")
    waiting = asyncio.create_task(owner.do(client.fair_lock(LOCK).acquire))
    await until(lambda: len(wire.waiting) == 1, 5, "it waits")
    proxy.stop_accepting()
    proxy.disconnect()
    with pytest.raises(ServerUnavailableError):
        await asyncio.wait_for(waiting, 20)
    assert len(wire.waiting) == 1
    proxy.start_accepting()
    await until(lambda: not wire.waiting and not wire.left, 10, "its place is given back")


def test_the_owner_comes_back_after_giving_up(redis_url: str, redis_client: redis.Redis) -> None:
    """An owner that gave up and asks again at once has a new place.

    Nothing that is still under way can remove the new place.
    """
    wire = Places(redis_client)
    with interlock.connect(redis_url) as client:
        wire.has("other")
        lock, seen = client.fair_lock(LOCK), set()
        for number in range(3):
            watching = threading.Thread(target=_note_next, args=(wire, seen, number + 1))
            watching.start()
            assert not lock.acquire(timeout=1)
            watching.join()
            assert wire.waiting == []
        assert len(seen) == 3
        wire.release("other")
        started = time.monotonic()
        assert lock.acquire(timeout=5)
        assert time.monotonic() - started < 3
        lock.release()


def _note_next(wire: Places, seen: set[str], count: int) -> None:
    """Add who waits to *seen* until those are *count*."""

    def noted() -> bool:
        seen.update(wire.waiting)
        return len(seen) == count

    wait_until(noted, 10, "another one waits")
