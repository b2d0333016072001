"""Many at once: threads, tasks and processes that want permits, and some that die with them."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import time
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import until
from tests.support.patience import let_others_run
from tests.support.servers import wait_until

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage


async def test_one_release_wakes_all_who_can_go(plain: Stage) -> None:
    """One release of twenty permits wakes twenty waiters of two clients, long before any poll."""
    clients = [plain.client(poll_cap=60) for _ in range(2)]
    owners = [plain.owner() for _ in range(20)]
    waiting = [
        asyncio.create_task(owner.do(plain.lock(clients[number % 2]).acquire))
        for number, owner in enumerate(owners)
    ]
    await until(lambda: plain.redis.pubsub_numsub("redisson_sc:{name}")[0][1] == 2, 5, "they wait")
    await plain.waits(20)
    await plain.owner().do(plain.lock(plain.client()).release, 20)
    assert await asyncio.wait_for(asyncio.gather(*waiting), 10) == [True] * 20
    assert plain.redis.get("name") == b"0"


@pytest.mark.parametrize("first", [3, 1], ids=["many-first", "one-first"])
async def test_who_wants_less_goes_ahead(plain: Stage, first: int) -> None:
    """Waiters for three, one and two permits go on as soon as they can, in any order of arrival."""
    client = plain.client(poll_cap=60)
    wants = [3, 1, 2] if first == 3 else [1, 2, 3]
    waiting = {}
    for number in wants:
        waiting[number] = asyncio.create_task(plain.owner().do(plain.lock(client).acquire, number))
        await plain.waits(len(waiting))
    giver = plain.lock(plain.client())
    for number in (1, 2, 3):
        await plain.owner().do(giver.release, number)
        assert await asyncio.wait_for(waiting[number], 20)
        assert not any(task.done() for other, task in waiting.items() if other > number)
    assert plain.redis.get("name") == b"0"


async def test_never_more_than_there_are(leased: Stage) -> None:
    """Of thirty owners of three clients at most three are inside at any time, and all get in."""
    clients = [leased.client(poll_cap=60) for _ in range(3)]
    await leased.owner().do(leased.lock(clients[0]).try_set_permits, 3)
    inside, most, visits = 0, 0, 0

    async def visit(number: int) -> None:
        nonlocal inside, most, visits
        owner, semaphore = leased.owner(), leased.lock(clients[number % 3])
        permit = await owner.do(semaphore.acquire, 1 + number % 2)
        inside += len(permit.ids)
        most = max(most, inside)
        visits += 1
        await owner.do(semaphore.available_permits)
        inside -= len(permit.ids)
        await owner.do(permit.release)

    await asyncio.wait_for(asyncio.gather(*map(visit, range(30))), 60)
    assert most == 3
    assert visits == 30
    assert leased.redis.get("name") == b"3"
    assert leased.redis.exists("{name}:timeout") == 0


def test_threads_and_tasks_together(redis_url: str, redis_client: redis.Redis) -> None:
    """Threads, tasks and processes that mix acquires and releases keep the number of permits."""
    child = """
        with interlock.connect(url) as client:
            semaphore = client.semaphore("name")
            for _ in range(100):
                with semaphore:
                    pass
        say("done")
    """

    async def tasks() -> None:
        async with interlock.asyncio.connect(redis_url) as client:

            async def turn() -> None:
                for _ in range(10):
                    async with client.semaphore("name"):
                        await let_others_run()

            await asyncio.gather(*(turn() for _ in range(10)))

    def turns() -> None:
        with interlock.connect(redis_url) as client:
            for number in range(50):
                assert client.semaphore("name").acquire(1 + number % 2)
                client.semaphore("name").release(1 + number % 2)

    redis_client.set("name", 3)
    threads = [threading.Thread(target=turns) for _ in range(4)]
    with ExitStack() as stack:
        children = [stack.enter_context(Child(child, redis_url)) for _ in range(2)]
        for thread in threads:
            thread.start()
        asyncio.run(tasks())
        for thread in threads:
            thread.join()
        assert [each.hear(60) for each in children] == ["done", "done"]
    assert redis_client.get("name") == b"3"


def test_what_a_killed_process_had_comes_back(redis_url: str, redis_client: redis.Redis) -> None:
    """A killed process's permits, with and without their own lease, come back within a lease."""
    child = """
        client = renews_soon(interlock.connect(url, lease=5))
        semaphore = client.leased_semaphore("name")
        permits = [semaphore.acquire(2), semaphore.acquire(lease=1.8)]
        say("holds")
        threading.Event().wait()
    """
    with Child(child, redis_url) as holder, interlock.connect(redis_url) as client:
        semaphore = client.leased_semaphore("name")
        semaphore.try_set_permits(3)
        assert holder.hear() == "holds"
        wait_until(lambda: semaphore.acquired_permits() == 2, 10, "one has ended, two are renewed")
        with semaphore.acquire():
            os.kill(holder.pid, signal.SIGKILL)
            killed = time.monotonic()
            with semaphore.acquire(2, timeout=20):
                assert time.monotonic() - killed < 5 + 2
        assert (semaphore.available_permits(), semaphore.permits()) == (3, 3)


def test_the_objects_say_what_they_are(redis_url: str) -> None:
    """Semaphores and permits show their names, and a permit its state and ids."""
    with interlock.connect(redis_url) as client:
        semaphore: Any = client.leased_semaphore("name")
        semaphore.try_set_permits(1)
        permit = semaphore.acquire()
        assert repr(client.semaphore("name")) == "<Semaphore 'name'>"
        assert repr(semaphore) == "<LeasedSemaphore 'name'>"
        assert repr(permit) == f"<Permit 'name' valid ids={permit.ids}>"
        permit.release()
        assert repr(permit) == f"<Permit 'name' over ids={permit.ids}>"
