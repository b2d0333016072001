"""The queue on the server, script by script: who has a place, who is next, and who is told."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.objects.alone.fair_places import LOCK, QUEUE, TIMEOUTS, Places
from tests.support.cards import own_keys

if TYPE_CHECKING:
    import redis
    from tests.support.servers import RedisServer


@pytest.fixture
def places(redis_client: redis.Redis) -> Places:
    """Give the fair lock ``orders`` as it is on the wire."""
    return Places(redis_client)


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


@pytest.mark.parametrize("seed", range(6))
def test_any_sequence_keeps_the_rules(places: Places, seed: int) -> None:
    """After any sequence of calls, list and zset agree, and grants follow the queue.

    Each deadline is bounded by the waiter's place.
    """
    rng = random.Random(seed)
    names = [f"w{number}" for number in range(6)]
    for _ in range(80):
        before, held = places.waiting, set(places.holders)
        who = rng.choice(names)
        match rng.choice(("ask", "ask", "ask", "try", "release", "leave", "force")):
            case "ask" | "try" as how:
                if who not in held and places.has(who, enqueue=how == "ask"):
                    assert not held
                    assert before[:1] in ([], [who])
                    assert places.waiting == before[1:]
                elif how == "ask" and who not in held:
                    assert places.waiting == (before if who in before else [*before, who])
            case "release" if held:
                assert places.release(held.pop())
                assert places.waiting == before
            case "leave" if who not in held:
                assert places.release(who) is (who in before)
                assert places.waiting == [other for other in before if other != who]
            case "force":
                assert places.force_release() is bool(held)
            case _:
                continue
        left = places.left
        assert sorted(left) == sorted(places.waiting)
        for place, waiter in enumerate(places.waiting):
            assert 0 < left[waiter] <= (place + 1) * 5


def test_a_full_server_still_lets_go(fresh_server: RedisServer) -> None:
    """When the server is out of memory one can still release, leave the queue, and be told."""
    with fresh_server.client() as client:
        places = Places(client)
        places.has("a")
        places.has("a", depth=2)
        for waiter in "bcd":
            places.acquire(waiter)
        client.config_set("maxmemory", 1)
        assert places.release("a", 1)
        assert places.release("b")
        with places.told() as messages:
            assert places.release("a")
        assert messages == [("c", "0")]
        assert places.waiting == ["c", "d"]
        client.config_set("maxmemory", 0)
        assert set(places.left) == {"c", "d"}


def test_the_dead_are_skipped_at_once(places: Places) -> None:
    """One script removes twenty places that are past their deadlines, whichever owner runs it.

    The next waiter is told, or the caller has the lock.
    """
    dead = [f"dead{number}" for number in range(20)]
    for survivor in (None, "b"):
        places.redis.flushall()
        places.redis.rpush(QUEUE, *dead)
        places.set_left(**dict.fromkeys(dead, -0.001))
        if survivor:
            places.redis.rpush(QUEUE, survivor)
            places.set_left(**{survivor: 5})
        with places.told() as messages:
            assert places.has("c") is (survivor is None)
        assert messages == ([] if survivor is None else [("b", "0")])
        assert places.waiting == ([] if survivor is None else ["b", "c"])
        assert set(places.left) == set(places.waiting)


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


def test_the_deadlines_are_in_epoch_milliseconds(places: Places) -> None:
    """A deadline is in milliseconds since 1970 by the server's clock, as Redisson reads it.

    It bears our mark.
    """
    places.has("a")
    before = places.now
    places.acquire("b")
    score = places.redis.zscore(TIMEOUTS, "b")
    assert score % 1 == 0.25
    assert int(before * 1000) + 4999 < score <= int(places.now * 1000) + 5000
