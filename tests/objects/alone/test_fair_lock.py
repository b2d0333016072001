"""A fair lock's queue, where waiters are dead, have a skewed clock, or where half of an entry is gone."""

from __future__ import annotations

import threading

import pytest
import redis
from tests.objects.alone.fair_places import LOCK, QUEUE, Places
from tests.support.cards import own_keys
from tests.support.child import Child
from tests.support.servers import wait_until

import interlock
import interlock.asyncio

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
    """Give the queue as it is on the wire."""
    return Places(redis_client)


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


ODD = {
    "a head without a deadline": (["x", "b"], {"b": 5.0}),
    "deadlines without a list": ([], {"x": 500.0, "b": 5.0}),
    "a deadline without a place": (["b"], {"x": 500.0, "b": 5.0}),
    "our place without a deadline": (["b"], {}),
    "nobody has a deadline": (["x", "y", "b", "z"], {}),
    "our place twice": (["b", "x", "b"], {"b": 5.0}),
    "another's place twice": (["x", "x", "b"], {"x": -1.0, "b": 5.0}),
}


@pytest.mark.parametrize("odd", ODD)
def test_list_and_zset_out_of_step_stop_nobody(places: Places, odd: str) -> None:
    """If half of an entry is missing, a waiter still gets a free lock at once.

    Nothing of the entry is left in the end.
    """
    waiting, deadlines = ODD[odd]
    if waiting:
        places.redis.rpush(QUEUE, *waiting)
    if deadlines:
        places.set_left(**deadlines)
    assert places.has("b")
    assert places.release("b")
    for left in places.waiting:
        places.release(left)
    assert not own_keys(places.redis)


@pytest.mark.parametrize("how", ["release", "force_release", "leave"])
def test_a_message_skips_the_dead(places: Places, how: str) -> None:
    """Who frees the lock, or makes way for the next, tells the first who is alive."""
    places.has("a")
    for waiter in ("first", "dead", "b"):
        places.acquire(waiter)
    if how == "leave":
        places.redis.delete(LOCK)
        places.set_left(dead=-1)
    else:
        places.release("first")
        places.set_left(dead=-1)
    with places.told() as messages:
        match how:
            case "release":
                places.release("a")
            case "force_release":
                places.force_release()
            case _:
                places.release("first")
    assert messages == [("b", "0")]
    assert places.waiting == ["b"]


def test_longer_waits_shorten_nobody_elses(places: Places) -> None:
    """When a waiter with a longer wait leaves or gets the lock, the others keep their places."""
    places.has("a")
    places.acquire("slow", wait=60)
    places.acquire("b")
    places.acquire("c", wait=60)
    places.acquire("d")
    places.release("slow", wait=60)
    places.acquire("b")
    places.release("a")
    assert places.has("b")
    places.release("b")
    assert places.has("c", wait=60)
    places.release("c", wait=60)
    assert places.waiting == ["d"]
    assert places.left["d"] > 0
    assert places.has("d")
