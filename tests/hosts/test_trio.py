"""The trio face: what trio's tasks, cancel scopes and the other objects have of their own.

What is the same as on the other faces, ``test_trio_lock_like.py`` asks.
"""

from __future__ import annotations

import asyncio
import contextlib
import threading
import warnings
from typing import TYPE_CHECKING, Any

import pytest
import trio
import trio.testing
from tests.lock.lock_like import resting
from tests.support.faults import command, delay_reply, drop_reply
from tests.support.patience import GIVE_UP, wait_until
from tests.support.renewal import renews_soon

import interlock
import interlock._drivers.trio
import interlock.trio

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Sequence

    import redis
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer


def run(main: Callable[..., Awaitable[None]], *args: Any) -> None:
    """Run *main* in a loop of trio's that ends in time."""

    async def limited() -> None:
        with trio.fail_after(30):
            await main(*args)

    trio.run(limited)


def test_tasks_take_turns(redis_url: str) -> None:
    """Many tasks take turns, each as its own owner; closing ends the client's threads."""

    async def main() -> None:
        inside = 0
        async with interlock.trio.connect(redis_url) as client, trio.open_nursery() as nursery:

            async def work() -> None:
                nonlocal inside
                for _ in range(5):
                    async with client.lock("name", timeout=20) as hold:
                        inside += 1
                        assert inside == 1
                        assert hold.valid
                        assert await client.lock("name").owned()
                        await trio.lowlevel.checkpoint()
                        inside -= 1

            for _ in range(10):
                nursery.start_soon(work)
        assert [t.name for t in threading.enumerate() if t.name.startswith("interlock")] == []

    run(main)


def test_two_loops_share_a_client(redis_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tasks of one loop that must wait for a thread are not woken by the other loop."""
    monkeypatch.setattr(interlock._drivers.trio, "THREADS", 1)
    client, worked = interlock.trio.connect(redis_url), list[int]()

    async def work(number: int) -> None:
        for _ in range(20):
            async with client.lock(f"name {number}"):
                pass
        worked.append(number)

    async def main(first: int) -> None:
        async with trio.open_nursery() as nursery:
            for number in range(first, first + 5):
                nursery.start_soon(work, number)

    # A loop that is broken may never end.
    loops = [threading.Thread(target=run, args=(main, first), daemon=True) for first in (0, 5)]
    for loop in loops:
        loop.start()
    for loop in loops:
        loop.join(GIVE_UP)
    assert sorted(worked) == list(range(10))
    run(client.close)


async def test_a_loop_inside_a_task_of_asyncio_is_refused(redis_url: str) -> None:
    """All tasks of that loop would be one owner; in a thread of its own each is one."""
    refused: list[str] = []

    async def main() -> None:
        async with interlock.trio.connect(redis_url) as client:
            try:
                assert await client.lock("name").acquire(timeout=5)
            except RuntimeError as error:
                refused.append(str(error))
            else:
                await client.lock("name").release()

    run(main)
    assert ["inside a task of asyncio" in text for text in refused] == [True]
    await asyncio.to_thread(run, main)
    assert len(refused) == 1


def test_the_sync_face_in_a_task_is_told_of(redis_url: str) -> None:
    """All tasks of the loop are one owner there; in a thread of trio's nothing is said."""

    async def main() -> None:
        with interlock.connect(redis_url) as client:
            with warnings.catch_warnings(record=True) as told:
                warnings.simplefilter("always")
                await trio.to_thread.run_sync(client.lock("name").acquire)
                assert not told
                assert not client.lock("other").locked()
                assert client.lock("other").acquire()
            assert ["blocks the running loop of trio" in str(each.message) for each in told] == [
                True
            ]
            client.lock("other").release()

    run(main)


def test_a_task_waits_for_another_client(redis_url: str) -> None:
    """A waiting task lets others run, and is woken by the release of a thread."""

    async def main() -> None:
        with interlock.connect(redis_url) as other:
            lock = other.lock("name")

            async with (
                interlock.trio.connect(redis_url) as client,
                trio.open_nursery() as nursery,
            ):
                assert await trio.to_thread.run_sync(lock.acquire)
                assert not await client.lock("name").acquire(timeout=0.1)

                async def release_when_it_waits() -> None:
                    waits = resting(client)
                    while not waits():
                        await trio.lowlevel.checkpoint()
                    await trio.to_thread.run_sync(lock.release)

                nursery.start_soon(release_when_it_waits)
                assert await client.lock("name").acquire(timeout=20)
                await client.lock("name").release()

    run(main)


def test_a_cancelled_acquire_leaves_nothing_behind(
    proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """A cancelled acquire holds nothing, and the client goes on.

    It is cancelled while it waits, or while its command is under way.
    """

    async def main() -> None:
        async with interlock.trio.connect(proxy.url()) as client:
            lock = client.lock("name")
            redis_client.hset("name", "somebody:1", 1)
            redis_client.pexpire("name", 60_000)
            with trio.move_on_after(0.1) as scope:
                await lock.acquire()
            assert scope.cancelled_caught
            redis_client.delete("name")
            proxy.on_request(lambda words: b"name" in words, delay_reply(0.3))
            with trio.move_on_after(0.05) as scope:
                async with lock:
                    await trio.sleep_forever()
            assert scope.cancelled_caught
            assert await lock.acquire(timeout=5)
            await lock.release()
            with trio.CancelScope() as scope:
                scope.cancel()
                await lock.acquire()
            assert scope.cancelled_caught
            assert await lock.acquire(timeout=5)
            with trio.CancelScope() as scope:
                scope.cancel()
                await lock.release()
            assert await lock.acquire(timeout=5)
            await lock.release()

    run(main)


class CancelsAfter(trio.abc.Instrument):
    """Cancels the scope that a task enters first, when the task has made so many steps."""

    def __init__(self, steps: int) -> None:
        self.left = steps
        self.scope = trio.CancelScope()
        self.task: trio.lowlevel.Task | None = None

    def after_task_step(self, task: trio.lowlevel.Task) -> None:
        """Count the step."""
        if task is self.task:
            self.left -= 1
            if self.left == 0:
                self.scope.cancel()


@pytest.mark.parametrize("held", [False, True], ids=["free", "held"])
def test_a_task_is_cancelled_at_each_wait(
    *, held: bool, loaded: redis.Redis, redis_url: str
) -> None:
    """Wherever a task is cancelled that acquires, works and releases, nothing is left behind."""

    async def work(client: interlock.asyncio.Client, strike: CancelsAfter) -> None:
        strike.task = trio.lowlevel.current_task()
        with strike.scope:
            async with client.lock("name", timeout=GIVE_UP):
                await trio.lowlevel.checkpoint()

    async def main() -> None:
        async with (
            interlock.trio.connect(redis_url) as client,
            interlock.trio.connect(redis_url) as other,
        ):
            taken, steps, struck = other.lock("name"), 0, True
            while struck:
                steps += 1
                strike = CancelsAfter(steps)
                if held:
                    assert await taken.acquire(timeout=0)
                async with trio.open_nursery() as nursery:
                    trio.lowlevel.add_instrument(strike)
                    nursery.start_soon(work, client, strike)
                    rests = resting(client)
                    while held and not (rests() or strike.scope.cancelled_caught):
                        await trio.lowlevel.checkpoint()
                    if held:
                        await taken.release()
                trio.lowlevel.remove_instrument(strike)
                struck = strike.left <= 0
                assert await taken.acquire(timeout=5), steps
                await taken.release()
            assert steps > 3

    run(main)
    assert loaded.keys("*") == []


def test_a_wait_that_survived_a_lost_connection_is_cancelled(
    proxy: FaultProxy, redis_client: redis.Redis
) -> None:
    """A task that waits on after its connection was lost still leaves with its cancel scope."""

    async def main() -> None:
        async with interlock.trio.connect(proxy.url()) as client:
            assert not await client.lock("name").locked()
            redis_client.hset("name", "somebody:1", 1)
            redis_client.pexpire("name", 60_000)
            proxy.on_request(command("EVALSHA", nth=1), drop_reply)
            began = trio.current_time()
            with trio.move_on_after(1) as scope:
                await client.lock("name").acquire(timeout=8)
            assert proxy.fired
            assert scope.cancelled_caught
            assert trio.current_time() - began < 5

    run(main)


@pytest.mark.usefixtures("redis_url")  # without data of earlier tests
@pytest.mark.parametrize("made", ["multi_lock", "red_lock"])
def test_a_wait_at_another_client_is_cancelled(made: str, server: RedisServer) -> None:
    """A cancelled lock of several clients does not wait on."""

    async def main() -> None:
        urls = [server.url(database) for database in range(3)]
        async with contextlib.AsyncExitStack() as stack:
            clients = [await stack.enter_async_context(interlock.trio.connect(url)) for url in urls]
            others = [await stack.enter_async_context(interlock.trio.connect(url)) for url in urls]
            for other in others[1:]:
                await other.lock("name").acquire()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")  # one server
                members = [client.lock("name") for client in clients]
                lock = getattr(clients[0], made)(*members)
            began = trio.current_time()
            with trio.move_on_after(0.5) as scope:
                await lock.acquire(timeout=15)
            assert scope.cancelled_caught
            assert trio.current_time() - began < 3
            assert not await others[0].lock("name").locked()

    run(main)


def test_a_loss_cancels_a_scope(redis_url: str, redis_client: redis.Redis) -> None:
    """A task learns of its lock's loss by the event, and by a callback that cancels its scope."""

    async def main() -> None:
        async with interlock.trio.connect(redis_url) as client:
            renews_soon(client)
            with pytest.raises(interlock.HoldLostError):
                async with client.lock("name") as hold:
                    with trio.CancelScope() as scope:
                        hold.on_lost(scope.cancel)
                        redis_client.delete("name")
                        await trio.sleep_forever()
                    assert scope.cancelled_caught
                    assert await hold.lost.wait()
                    raise hold_lost(hold)
            with pytest.raises(interlock.ConfigError, match=r"on_lost\(scope.cancel\)"):
                async with client.lock("name", cancel_on_lost=True):
                    pass
            wait_until(lambda: not redis_client.exists("name"), 5, "what was refused is released")

    def hold_lost(hold: Any) -> BaseException:
        try:
            hold.ensure()
        except interlock.HoldLostError as error:
            return error
        raise AssertionError("it is lost")

    run(main)


def test_a_cancelled_call_keeps_its_lock_for_min_hold(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """The lock of a call that a cancel scope ends stays for `min_hold`, and no longer."""

    async def main() -> None:
        async with interlock.trio.connect(redis_url) as client:
            report = client.single("report", min_hold=5)(trio.sleep_forever)
            with trio.move_on_after(0.1):
                await report()
            assert 0 < redis_client.pttl("report") <= 5000

    run(main)


def test_every_kind_locks(redis_url: str) -> None:
    """The other objects work in trio's tasks too."""

    async def main() -> None:
        async with interlock.trio.connect(redis_url) as client:
            for lock in (
                client.fenced_lock("fenced"),
                client.read_write_lock("rw").read,
                client.group_lock("group", ["a", "b"]),
            ):
                async with lock:
                    assert await lock.owned()
                assert not await lock.locked()
            semaphore = client.semaphore("permits")
            await semaphore.try_set_permits(1)
            assert await semaphore.acquire(timeout=1)
            assert not await semaphore.acquire(timeout=0.05)
            await semaphore.release()
            async with client.lock("name") as hold:
                ticket = await hold.hand_over()
            await (await client.adopt(ticket)).release()
            latch = client.count_down_latch("latch")
            await latch.try_set_count(1)
            await latch.count_down()
            assert await latch.wait(timeout=5)
            event = client.event("event")
            assert not await event.wait(timeout=0.05)
            await event.set()
            assert await event.wait(timeout=5)
            assert await client.barrier("barrier", 1).wait() == 0
            condition = client.condition("condition")
            async with condition:
                assert not await condition.wait(timeout=0.05)
                await condition.notify()
                assert await condition.wait_for(condition.lock.owned, timeout=5)
            election = client.election("election", candidate="a")
            told = trio.Event()
            observing = election.observe(lambda info: told.set() if info else None)
            async with observing, election as term:
                assert term.token == 1
                with trio.fail_after(10):
                    await told.wait()
            assert await election.run(election.leader) is not None

    run(main)


def test_operators_read_and_release(redis_url: str) -> None:
    """The methods for operators work in trio's tasks."""

    async def main() -> None:
        async with interlock.trio.connect(redis_url) as client:
            async with client.lock("name") as hold:
                assert [info.name async for info in client.locks()] == ["name"]
                info = await client.describe("name")
                assert info is not None
                assert info.holders[0].holder == hold.holder
                assert await client.deadlocks() == []
                assert (await client.check()).servers[0].reached
            other = client.lock("broken")
            await other.acquire()
            assert other.hold is not None
            holder = other.hold.holder
            assert holder is not None
            assert await client.force_release("broken", holder=holder)
            assert not await other.locked()

    run(main)


def test_a_lock_is_shown_outside_of_a_task(redis_url: str) -> None:
    """Where no task runs, a lock shows itself as not held here."""
    locks: list[object] = []

    async def main() -> None:
        async with interlock.trio.connect(redis_url) as client:
            locks.append(client.lock("name"))

    run(main)
    assert repr(locks[0]) == "<Lock 'name' not held here>"


def test_a_dropped_permit_is_its_tasks(redis_url: str) -> None:
    """A task of trio's keeps a dropped permit while it lives, and gives it up when it ends."""

    async def main() -> None:
        async with interlock.trio.connect(redis_url, lease=6) as client:
            renews_soon(client)
            semaphore = client.leased_semaphore("name")
            assert await semaphore.try_set_permits(1)

            async def take() -> None:
                if await semaphore.try_acquire():
                    with interlock.connect(redis_url) as other:
                        theirs = other.leased_semaphore("name")
                        took = await trio.to_thread.run_sync(
                            lambda: theirs.try_acquire(timeout=1.8)
                        )
                        assert not took

            async with trio.open_nursery() as nursery:
                nursery.start_soon(take)
            with trio.fail_after(20):
                while not await semaphore.available_permits():  # noqa: ASYNC110 - the server tells
                    await trio.sleep(0.01)  # between two questions

    def run_until_told(told: Sequence[object]) -> None:
        trio.run(main)
        # A thread of the client's tells it, at its leisure.
        wait_until(lambda: len(told) > 1, 10, "the dropped hold and its end are told")

    with pytest.warns(interlock.MisuseWarning, match="was never released") as caught:
        run_until_told(caught.list)
