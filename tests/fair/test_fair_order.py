"""First come, first served: over threads, tasks, processes and clients.

Some waiters are dead or have a skewed clock.
"""

from __future__ import annotations

import asyncio
import threading
import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.fair.places import LOCK, QUEUE, Places
from tests.lock.children import Child
from tests.lock.lock_like import until
from tests.support.cards import own_keys
from tests.support.servers import wait_until

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    import redis

WAIT_IN_THREAD = """
client = interlock.connect(url)
with client.fair_lock("orders"):
    say("mine")
    sys.stdin.readline()
client.close()
"""
WAIT_IN_TASK = """
async def main():
    async with interlock.asyncio.connect(url) as client, client.fair_lock("orders"):
        say("mine")
        await asyncio.to_thread(sys.stdin.readline)
asyncio.run(main())
"""
WAIT_IN_MANY = """
client = interlock.connect(url, fair_wait=2)
for _ in range(10):
    threading.Thread(target=client.fair_lock("orders").acquire, daemon=True).start()
sys.stdin.readline()
"""
SKEWED = """
true_time, true_ns = time.time, time.time_ns
time.time, time.time_ns = lambda: true_time() + SKEW, lambda: true_ns() + int(SKEW * 1e9)
"""


@pytest.fixture
def places(redis_client: redis.Redis) -> Places:
    """Give the queue as it is on the wire, where waiters may be silent for a second."""
    return Places(redis_client, wait=1)


@pytest.mark.filterwarnings("ignore::interlock.errors.MisuseWarning")  # both faces on purpose
async def test_threads_tasks_and_processes_are_served_in_order(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """Eight waiters in threads, tasks and other processes get the lock in the order of asking."""
    order: list[int] = []
    wire = Places(redis_client)

    async def in_thread(number: int) -> None:
        def visit() -> None:
            with client.fair_lock(LOCK):
                order.append(number)

        await asyncio.to_thread(visit)

    async def in_task(number: int) -> None:
        async with async_client.fair_lock(LOCK):
            order.append(number)

    async def in_process(number: int, code: str) -> None:
        def visit() -> None:
            with Child(code, redis_url) as child:
                assert child.hear(60) == "mine"
                order.append(number)
                child.tell("go on")
                assert child.end() == (0, "")

        await asyncio.to_thread(visit)

    with interlock.connect(redis_url) as client:
        async with interlock.asyncio.connect(redis_url) as async_client:
            client.fair_lock(LOCK).acquire()
            visits = []
            for number in range(8):
                match number % 4:
                    case 0:
                        visit: Any = in_thread(number)
                    case 1:
                        visit = in_process(number, WAIT_IN_THREAD)
                    case 2:
                        visit = in_task(number)
                    case _:
                        visit = in_process(number, WAIT_IN_TASK)
                visits.append(asyncio.create_task(visit))
                await until(lambda n=number: len(wire.waiting) == n + 1, 20, f"{number} waits")
            client.fair_lock(LOCK).release()
            await asyncio.wait_for(asyncio.gather(*visits), 60)
    assert order == list(range(8))
    assert not own_keys(redis_client)


def test_a_live_waiter_keeps_its_place(redis_url: str, places: Places) -> None:
    """Waiters that wait for longer than all their waits together are never skipped."""
    wait = 1.6
    with interlock.connect(redis_url, fair_wait=wait) as client:
        client.fair_lock(LOCK).acquire()
        order: list[int] = []

        def visit(number: int) -> None:
            with client.fair_lock(LOCK):
                order.append(number)

        threads = []
        for number in range(3):
            threads.append(threading.Thread(target=visit, args=(number,)))
            threads[-1].start()
            wait_until(lambda n=number: len(places.waiting) == n + 1, 5, "it waits")
        queue = places.waiting
        end = time.monotonic() + 3.2 * wait

        def looked() -> bool:
            assert places.waiting == queue
            for place, left in enumerate(places.left[waiter] for waiter in queue):
                assert 0 < left <= (place + 1) * wait
            return time.monotonic() > end

        wait_until(looked, 20, "several waits have passed")
        client.fair_lock(LOCK).release()
        for thread in threads:
            thread.join(10)
        assert order == [0, 1, 2]


def test_killed_waiters_delay_for_one_wait(redis_url: str, places: Places) -> None:
    """Ten waiters that are killed together delay the next one by one wait at most."""
    with (
        interlock.connect(redis_url, fair_wait=2) as client,
        Child(WAIT_IN_MANY, redis_url) as child,
    ):
        client.fair_lock(LOCK).acquire()
        wait_until(lambda: len(places.waiting) == 10, 10, "ten wait")
        child.kill()
        client.fair_lock(LOCK).release()
        assert client.fair_lock(LOCK).acquire(timeout=2 + 2)
        assert places.waiting == []
        client.fair_lock(LOCK).release()
    assert not own_keys(places.redis)


@pytest.mark.parametrize("skew", [-60, 60, 86_400])
def test_clocks_of_clients_do_not_matter(redis_url: str, places: Places, skew: int) -> None:
    """A waiter whose clock is wrong keeps its place, and does not cost another one its."""
    code = f"SKEW = {skew}\n" + SKEWED + WAIT_IN_THREAD
    with interlock.connect(redis_url) as client, Child(code, redis_url) as skewed:
        client.fair_lock(LOCK).acquire()
        wait_until(lambda: len(places.waiting) == 1, 10, "the skewed one waits")
        seen: list[tuple[list[str], int]] = []

        def wait_behind() -> None:
            with client.fair_lock(LOCK):
                seen.append((places.waiting, len(places.holders)))

        behind = threading.Thread(target=wait_behind)
        behind.start()
        wait_until(lambda: len(places.waiting) == 2, 5, "another one waits")
        assert all(0 < left <= 10 for left in places.left.values())
        client.fair_lock(LOCK).release()
        assert skewed.hear() == "mine"
        skewed.tell("go on")
        behind.join(10)
        assert seen == [([], 1)]
        assert skewed.end() == (0, "")


def test_a_silent_first_waiter_does_not_make_others_spin(redis_url: str, places: Places) -> None:
    """While the lock is free and the first waiter silent, the others ask only a few times."""
    with interlock.connect(redis_url, fair_wait=1) as client:
        started = time.monotonic()
        places.redis.rpush(QUEUE, "dead:1")
        places.set_left(**{"dead:1": 1.5})
        before = _scripts_run(places.redis)
        assert client.fair_lock(LOCK).acquire(timeout=10)
        assert 1.4 < time.monotonic() - started < 1.5 + 2
        assert _scripts_run(places.redis) - before < 12
        client.fair_lock(LOCK).release()


def _scripts_run(redis_client: redis.Redis) -> int:
    return sum(
        figures["calls"]
        for name, figures in redis_client.info("commandstats").items()
        if name in ("cmdstat_evalsha", "cmdstat_eval")
    )
