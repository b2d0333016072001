"""First come, first served: over threads, tasks, processes and clients.

Some waiters are dead or have a skewed clock.
"""

from __future__ import annotations

import asyncio
import threading
from typing import TYPE_CHECKING

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import kind_of, stage_of, until
from tests.objects.alone.fair_places import LOCK, Places
from tests.support.cards import own_keys
from tests.support.proxy import command, drop_reply, drop_request
from tests.support.servers import wait_until

import interlock
import interlock.asyncio

if TYPE_CHECKING:
    import redis
    from tests.lock.lock_like import Stage
    from tests.support.proxy import Action, FaultProxy

fair = stage_of(kind_of("fair"))


WAIT_IN_THREAD = """
client = interlock.connect(url)
with client.fair_lock("orders"):
    say("mine")
    sys.stdin.readline()
client.close()
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


@pytest.mark.parametrize("skew", [-60, 86_400])
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
