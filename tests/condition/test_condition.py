"""The condition on both faces: who is notified, what the lock is afterwards, and what is left."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import pytest
from tests.core.making import make
from tests.lock.children import Child
from tests.lock.interrupting import Blow
from tests.lock.lock_like import sent_in, until
from tests.support.patience import forever, wait_until
from tests.support.renewal import renews_soon

import interlock
import interlock.asyncio
from interlock import HoldLostError, NotHeldError
from interlock._core.objects.condition import WaitFor

if TYPE_CHECKING:
    from collections.abc import Generator

    import redis
    from tests.lock.lock_like import Owner, Stage
    from tests.support.proxy import FaultProxy


WAITING = "interlock_condition:{name}:"
SLACK = 20.0
"""Seconds that a busy machine may take for what is due."""


async def _wait(stage: Stage, condition: Any, **options: Any) -> tuple[Owner, asyncio.Task[Any]]:
    """Return a wait that has begun, and whose it is."""
    owner, before = stage.owner(), stage.redis.zcard(WAITING)
    await owner.do(condition.acquire)
    waiting = asyncio.create_task(owner.do(condition.wait, **options))
    await until(lambda: stage.redis.zcard(WAITING) > before, 20, "it waits")
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


@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "spin_lock", "write"])
async def test_a_block_of_the_lock_is_the_conditions(redis_url: str, kind: str) -> None:
    """Who holds the lock, by whatever object, waits and notifies; blocks end what they began."""
    async with interlock.asyncio.connect(redis_url) as client:
        lock, same = make(client, kind, "name"), make(client, kind, "name")
        condition = client.condition(same)
        async with lock as outer:
            await condition.notify()
            async with condition, lock.trying() as inner:
                assert inner
                assert await condition.wait(0.05) is False
                assert await lock.hold_count() == 3
                assert not outer
            assert condition.hold
            assert condition.hold.depth == 1
        assert not await lock.locked()
        await lock.acquire()
        async with lock.hold or pytest.fail("it is held"):
            assert await condition.wait(0.05) is False
        assert not await lock.locked()


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
    """A notification passes who does not listen; a frozen process has it when it goes on."""
    code = """
        with interlock.connect(url, lease=5) as client:
            condition = client.condition("name")
            with condition:
                say("waits")
                say(condition.wait())
    """
    condition = stage.lock(stage.client(lease=5))
    with Child(code, proxy.url()) as child:
        assert child.hear() == "waits"
        await until(lambda: stage.redis.zcard(WAITING) == 1, 20, "it waits")
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
        await until(lambda: _listen(stage) == (2 if how == "freeze" else 1), 20, "it is seen")
        await speaker.do(condition.notify, 2 if how == "freeze" else 1)
        await speaker.do(condition.release)
        await _woken(owner, condition, waiting)
        assert time.monotonic() - died < 5 + SLACK
        if how == "freeze":
            child.signal(signal.SIGCONT)
        elif how == "cut":
            proxy.start_accepting()
        if how != "kill":
            assert child.hear() == "True", "it cannot know whether it was notified"


def _listen(stage: Stage) -> int:
    """Return how many clients hear of the lock."""
    return int(stage.redis.pubsub_numsub("interlock_waiting:{name}")[0][1])


async def test_messages_are_not_needed(stage: Stage, proxy: FaultProxy) -> None:
    """Without any message a waiter goes on within 2 s, and costs one look in these."""
    proxy.drop_messages = True
    condition = stage.lock(stage.client(proxy.url()))
    owner, waiting = await _wait(stage, condition)
    took = await sent_in(proxy, 5)
    assert proxy.commands["EVALSHA"] <= took / 2 + 1
    await _notify(stage.owner(), stage.lock(stage.client()), 1)
    told = time.monotonic()
    await _woken(owner, condition, waiting)
    assert time.monotonic() - told < 2 + SLACK


async def test_a_lock_that_cannot_be_had_again(stage: Stage, proxy: FaultProxy) -> None:
    """When the server is away for longer than an outage may take, HoldLostError is raised."""
    client = stage.client(proxy.url(), command_timeout=0.2, outage_timeout=0.5)
    condition = stage.lock(client)
    _, waiting = await _wait(stage, condition)
    proxy.stop_accepting()
    proxy.disconnect()
    with pytest.raises(HoldLostError) as caught:
        await asyncio.wait_for(waiting, 30)
    assert isinstance(caught.value.__cause__, interlock.InterlockError)
    proxy.start_accepting()


async def test_what_is_left(stage: Stage) -> None:
    """Every key of a condition has a time to live, and none stays when nobody waits."""
    condition = stage.lock(stage.client())
    owner, waiting = await _wait(stage, condition)
    keys = [key.decode() for key in stage.redis.scan_iter("interlock_*")]
    assert WAITING in keys
    assert all(0 < stage.redis.ttl(key) <= 3700 for key in keys if "client" not in key)
    await _notify(stage.owner(), condition, 1)
    await _woken(owner, condition, waiting)
    assert stage.left_behind() == set()


def test_a_lock_of_the_other_face_is_refused(redis_url: str) -> None:
    """A condition takes a name or a lock of its own face, and nothing else."""
    with interlock.connect(redis_url) as client:
        other = interlock.asyncio.connect(redis_url)
        for wrong in (other.lock("a"), client.semaphore("a"), threading.Lock(), None, 5):
            with pytest.raises(TypeError, match="condition"):
                client.condition(wrong)  # type: ignore[arg-type]
        lock = client.fenced_lock("a")
        assert client.condition(lock).lock is lock
        assert client.condition(lock, name="news").name == "a:news"
        assert repr(client.condition("a")) == "<Condition 'a' of Lock 'a'>"


@pytest.mark.parametrize("kind", ["fenced_lock", "lock", "spin_lock"])
def test_a_block_of_a_try_releases_what_a_wait_acquired(redis_url: str, kind: str) -> None:
    """However a block got the lock, it releases the hold that a wait put in its place."""
    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as other:
        lock, theirs = make(client, kind, "name"), make(other, kind, "name")
        condition = client.condition(lock)
        with lock.trying() as hold:
            assert hold
            assert condition.wait(0.05) is False
        assert theirs.acquire(timeout=0)
        theirs.release()
        with lock as outer:
            with lock.trying() as inner:
                assert inner
                assert condition.wait(0.05) is False
            assert condition.hold is not None
            assert condition.hold.depth == 1
            assert not outer
        assert not theirs.locked()
        ticket = lock.acquire() and lock.hold
        assert ticket
        with client.adopt(ticket.hand_over()):
            assert condition.wait(0.05) is False
        assert theirs.acquire(timeout=0)


@pytest.mark.parametrize("kind", ["write", "lock"])
@pytest.mark.parametrize("by", ["lock", "hold"])
async def test_cancel_on_lost_goes_on_after_a_wait(redis_url: str, kind: str, by: str) -> None:
    """A task whose lock is lost is cancelled inside its block, after a wait too."""
    async with renews_soon(interlock.asyncio.connect(redis_url)) as client:
        lock = make(client, kind, "name")
        lock.cancel_on_lost = by == "lock"
        began = time.monotonic()
        with pytest.raises(HoldLostError):
            async with lock as hold:
                if by == "hold":
                    hold.cancel_on_lost()
                await client.condition(lock).wait(0.05)
                await make(client, kind, "name").force_release()
                await forever()
        assert time.monotonic() - began < 30


@pytest.mark.filterwarnings("ignore:3 members on 1 servers:UserWarning")
def test_a_lock_without_conditions_is_refused(redis_url: str) -> None:
    """The message says what was wanted and found, and what to do."""
    with interlock.connect(redis_url) as client:
        plain = [client.lock(name) for name in "abc"]
        group = client.group_lock("the name", ["one"])
        both, most = client.multi_lock(*plain), client.red_lock(*plain)
        reads = client.read_write_lock("the name").read
        for lock in (client.fair_lock("the name"), group, reads, both, most):
            with pytest.raises(interlock.ConfigError) as caught:
                client.condition(lock)
            told = str(caught.value)
            assert "needs a plain, fenced, spin or write lock, got" in told
            assert f"{lock.name!r}: make it of a client.lock" in told


def test_what_cannot_be_waited_with_is_refused(redis_url: str) -> None:
    """A lock of another client is refused; nothing changes."""
    with (
        interlock.connect(redis_url) as client,
        interlock.connect(redis_url) as other,
        pytest.raises(interlock.ConfigError, match="its own client"),
    ):
        client.condition(other.lock("name"))


@pytest.mark.filterwarnings("ignore:unclosed <socket:ResourceWarning")
@pytest.mark.parametrize("kind", ["lock", "fenced_lock", "write"])
def test_ctrl_c_anywhere_in_a_wait(redis_url: str, redis_client: redis.Redis, kind: str) -> None:
    """Wherever Ctrl-C strikes in a wait, the lock is held then, and nobody waits any more."""
    with interlock.connect(redis_url, lease=8) as client:
        condition, blow = client.condition(make(client, kind, "name")), Blow(1)
        while blow.struck:
            condition.acquire()
            with suppress(KeyboardInterrupt), blow:
                condition.wait(0.001)
            assert condition.lock.owned(), f"{blow} lost the lock"
            assert condition.lock.hold_count() == 1, f"{blow} lost the depth"
            condition.release()
            assert not client.holds(), f"{blow} left a hold"
            wait_until(lambda: not redis_client.exists(WAITING), 5, f"{blow} left a waiter")
            blow = blow.next()
        assert blow.at > 100


@pytest.mark.parametrize("kind", ["lock", "write"])
def test_a_second_ctrl_c_passes_the_notification_on(
    redis_url: str, redis_client: redis.Redis, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    """If it strikes the undo, the garbage takes all back, and the next waiter is notified."""
    hold_again, struck = WaitFor._hold_again, list[str]()

    def strike(step: WaitFor, news: Any) -> Generator[Any, Any, None]:
        if threading.current_thread().name == "struck" and len(struck) < 2:
            struck.append("a wait")
            raise KeyboardInterrupt
        yield from hold_again(step, news)

    monkeypatch.setattr(WaitFor, "_hold_again", strike)
    with interlock.connect(redis_url) as client, ThreadPoolExecutor(2) as pool:
        condition = client.condition(make(client, kind, "name"))

        def wait() -> bool:
            with condition:
                return condition.wait(20)

        def be_struck() -> None:
            threading.current_thread().name = "struck"
            with pytest.raises(KeyboardInterrupt):
                wait()

        first = pool.submit(be_struck)
        wait_until(lambda: redis_client.zcard(WAITING) == 1, 10, "one waits")
        second = pool.submit(wait)
        wait_until(lambda: redis_client.zcard(WAITING) == 2, 10, "two wait")
        with condition:
            condition.notify()
        first.result(10)
        assert struck == ["a wait", "a wait"]
        assert second.result(10) is True
        assert not condition.lock.locked()
        assert not client.holds()
