"""The condition on both faces: who is notified, what the lock is afterwards, and what is left."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import sent_in, until
from tests.support.patience import forever, wait_until
from tests.support.renewal import renews_soon

import interlock
import interlock.asyncio
from interlock import HoldLostError, NotHeldError

if TYPE_CHECKING:
    from tests.lock.lock_like import Owner, Stage
    from tests.support.proxy import FaultProxy

WAITING = "interlock_condition:{name}"
LEASES = "interlock_condition_leases:{name}"
SLACK = 20.0
"""Seconds that a busy machine may take for what is due."""


async def _wait(stage: Stage, condition: Any, **options: Any) -> tuple[Owner, asyncio.Task[Any]]:
    """Return a wait that has begun, and whose it is."""
    owner, before = stage.owner(), stage.redis.zcard(LEASES)
    await owner.do(condition.acquire)
    waiting = asyncio.create_task(owner.do(condition.wait, **options))
    await until(lambda: stage.redis.zcard(LEASES) > before, 20, "it waits")
    return owner, waiting


async def _notify(owner: Owner, condition: Any, *counts: int) -> None:
    await owner.do(condition.acquire)
    for count in counts:
        await owner.do(condition.notify, count)
    await owner.do(condition.release)


async def _woken(owner: Owner, condition: Any, waiting: asyncio.Task[Any]) -> None:
    """Check that a wait ends by a notification and holds the lock, and release that."""
    assert await asyncio.wait_for(waiting, 20) is True
    assert await owner.do(condition.lock.owned)
    await owner.do(condition.release)


async def test_a_timeout_is_kept(stage: Stage) -> None:
    """A wait in vain returns False after its time, with the lock held; 0 is no wait at all."""
    owner, condition = stage.owner(), stage.lock(stage.client())
    await owner.do(condition.acquire)
    began = time.monotonic()
    assert await owner.do(condition.wait, timeout=0.2) is False
    assert 0.2 <= time.monotonic() - began < 0.2 + SLACK
    assert await owner.do(condition.wait, timeout=0) is False
    assert await owner.do(condition.lock.hold_count) == 1
    await owner.do(condition.release)
    assert not stage.redis.exists(WAITING, LEASES)


async def test_the_lock_is_needed(stage: Stage) -> None:
    """Who does not hold the lock can neither wait nor notify, and a lost lock is told."""
    owner, condition = stage.owner(), stage.lock(stage.client())
    for call in (condition.wait, condition.notify, condition.notify_all):
        with pytest.raises(NotHeldError):
            await owner.do(call)
    await owner.do(condition.acquire, lease=0.1)
    await asyncio.sleep(0.2)  # the lease of a real server ends
    for call in (condition.wait, condition.notify):
        with pytest.raises(HoldLostError):
            await owner.do(call)
    assert stage.left_behind() == set()
    for wrong in (-1, 1_000_001):
        with pytest.raises(ValueError, match="waiters"):
            await owner.do(condition.notify, wrong)
    for bad in (True, "1", 1.0):
        with pytest.raises(TypeError, match="waiters"):
            await owner.do(condition.notify, bad)
    with pytest.raises(ValueError, match="timeout"):
        await owner.do(condition.wait, -2)


async def test_a_predicate_may_be_awaited(redis_url: str) -> None:
    """With asyncio a predicate that asks a server is awaited."""
    async with interlock.asyncio.connect(redis_url) as client:
        condition = client.condition("name")
        async with condition as hold:
            assert hold
            assert await condition.wait_for(condition.lock.owned, 5) is True
            assert not await condition.wait(0)
            assert condition.hold
            assert not hold, "a wait ends the former hold"


@pytest.mark.parametrize("how", ["kill", "freeze", "cut"])
@pytest.mark.parametrize("face", ["sync"], indirect=True)
async def test_a_dead_waiter_swallows_nothing(stage: Stage, proxy: FaultProxy, how: str) -> None:
    """When the first waiter dies as it is notified, the next one goes on within its lease."""
    code = """
        with renews_soon(interlock.connect(url, lease=5)) as client:
            condition = client.condition("name")
            with condition:
                say("waits")
                say(condition.wait())
    """
    condition = stage.lock(stage.client(lease=5, renewed="soon", poll_cap=60))
    with Child(code, proxy.url()) as child:
        assert child.hear() == "waits"
        await until(lambda: stage.redis.zcard(LEASES) == 1, 20, "it waits")
        owner, waiting = await _wait(stage, condition)
        speaker = stage.owner()
        await speaker.do(condition.acquire)
        if how == "kill":
            child.kill()
        elif how == "freeze":
            child.signal(signal.SIGSTOP)
        else:
            proxy.stop_accepting()
            proxy.disconnect()
        died = time.monotonic()
        await speaker.do(condition.notify)
        await speaker.do(condition.release)
        assert stage.redis.zcard(WAITING) == 1, "the dead one was notified"
        await _woken(owner, condition, waiting)
        assert time.monotonic() - died < 5 + SLACK
        if how == "freeze":
            child.signal(signal.SIGCONT)
            assert child.hear() == "False", "its notification was given away"
        elif how == "cut":
            proxy.start_accepting()
            assert child.hear() == "False", "its notification was given away"


async def test_messages_are_not_needed(stage: Stage, proxy: FaultProxy) -> None:
    """Without any message a waiter goes on within the poll cap, and costs one look in it."""
    proxy.drop_messages = True
    condition = stage.lock(stage.client(proxy.url(), poll_cap=1))
    owner, waiting = await _wait(stage, condition)
    await stage.waits()
    took = await sent_in(proxy, 2)
    assert proxy.commands["EVALSHA"] <= took / 0.75 + 1
    await _notify(stage.owner(), stage.lock(stage.client()), 1)
    told = time.monotonic()
    await _woken(owner, condition, waiting)
    assert time.monotonic() - told < 1 + SLACK


async def test_a_lock_that_cannot_be_had_again(stage: Stage, proxy: FaultProxy) -> None:
    """When the server is away for longer than an outage may take, HoldLostError is raised."""
    client = stage.client(proxy.url(), command_timeout=0.2, outage_timeout=0.5, poll_cap=0.5)
    condition = stage.lock(client)
    _, waiting = await _wait(stage, condition)
    proxy.stop_accepting()
    proxy.disconnect()
    with pytest.raises(HoldLostError) as caught:
        await asyncio.wait_for(waiting, 30)
    assert isinstance(caught.value.__cause__, interlock.InterlockError)
    proxy.start_accepting()


async def test_what_is_left(stage: Stage) -> None:
    """Every key of a condition has a time to live, and only requests stay when nobody waits."""
    condition = stage.lock(stage.client())
    owner, waiting = await _wait(stage, condition)
    keys = [key.decode() for key in stage.redis.scan_iter("interlock_*")]
    assert {WAITING, LEASES} < set(keys)
    assert all(0 < stage.redis.ttl(key) <= 3700 for key in keys if "client" not in key)
    await _notify(stage.owner(), condition, 1)
    await _woken(owner, condition, waiting)
    assert all(key.startswith("interlock_request:{name}:") for key in stage.left_behind())


def test_a_lock_of_the_other_face_is_refused(redis_url: str) -> None:
    """A condition takes a name or a lock of its own face, and nothing else."""
    with interlock.connect(redis_url) as client:
        other = interlock.asyncio.connect(redis_url)
        for wrong in (other.lock("a"), client.semaphore("a"), threading.Lock(), None, 5):
            with pytest.raises(TypeError, match="condition"):
                client.condition(wrong)  # type: ignore[arg-type]
        lock = client.lock("a")
        assert client.condition(lock).lock is lock
        assert client.condition(lock, name="news").name == "a:news"
        assert repr(client.condition("a")) == "<Condition 'a' of Lock 'a'>"


def test_a_block_of_try_lock_releases_what_a_wait_acquired(redis_url: str) -> None:
    """However a block got the lock, it releases the hold that a wait put in its place."""
    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as other:
        condition = client.condition("name")
        with client.try_lock("name") as hold:
            assert hold
            assert condition.wait(0.05) is False
        assert other.lock("name").acquire(timeout=0)
        other.lock("name").release()
        with client.lock("name") as outer:
            with client.try_lock("name") as inner:
                assert inner
                assert condition.wait(0.05) is False
            assert condition.hold is not None
            assert condition.hold.depth == 1
            assert not outer
        assert not other.lock("name").locked()
        ticket = client.lock("name").acquire() and client.lock("name").hold
        assert ticket
        with client.adopt(ticket.hand_over()):
            assert condition.wait(0.05) is False
        assert other.lock("name").acquire(timeout=0)


@pytest.mark.filterwarnings("ignore:3 members on 1 servers:UserWarning")
@pytest.mark.parametrize("kind", ["multi_lock", "red_lock"])
def test_a_loss_of_several_locks_after_waits_is_told(redis_url: str, kind: str) -> None:
    """A callback for several locks as one hears of the loss, once, after waits and in a block."""
    told: list[str] = []
    with renews_soon(interlock.connect(redis_url)) as client:
        names = ("a", "b", "c") if kind == "red_lock" else ("a", "b")
        lock = getattr(client, kind)(*map(client.lock, names))
        condition = client.condition(lock, name="news")
        with lock as hold:
            hold.on_lost(lambda: told.append("in vain"))
            condition.wait(0.05)
        assert not any(client.lock(name).locked() for name in names)
        with pytest.raises(HoldLostError), lock as hold:
            hold.on_lost(lambda: told.append("lost"))
            for _ in range(2):
                condition.wait(0.05)
            for name in names[:2]:
                client.lock(name).force_release()
            wait_until(lambda: told, 10, "the callback hears of it")
        assert told == ["lost"]
        lock.acquire()
        with lock.hold:
            condition.wait(0.05)
        assert not any(client.lock(name).locked() for name in names)


async def test_cancel_on_lost_goes_on_after_a_wait(redis_url: str) -> None:
    """A task whose lock is lost is cancelled inside its block, after a wait too."""
    async with renews_soon(interlock.asyncio.connect(redis_url)) as client:
        lock = client.lock("name", cancel_on_lost=True)
        began = time.monotonic()
        with pytest.raises(HoldLostError):
            async with lock:
                await client.condition(lock).wait(0.05)
                await client.lock("name").force_release()
                await forever()
        assert time.monotonic() - began < 30


def test_what_cannot_be_waited_with_is_refused(redis_url: str) -> None:
    """A lock of another client is refused; nothing changes."""
    with (
        interlock.connect(redis_url) as client,
        interlock.connect(redis_url) as other,
        pytest.raises(interlock.ConfigError, match="its own client"),
    ):
        client.condition(other.lock("name"))
