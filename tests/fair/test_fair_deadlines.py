"""Deadlines of places: who counts as dead and when, and that nobody alive does."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import pytest
from tests.fair.places import LOCK, QUEUE, TIMEOUTS, Places
from tests.support.patience import wait_until

if TYPE_CHECKING:
    import redis
    from tests.support.servers import RedisServer

NEAR = 1.0
"""Seconds that a busy machine may take between two commands."""


def test_nobody_asks_too_often_or_too_seldom(places: Places) -> None:
    """A waiter asks again neither too often nor too seldom.

    Behind a silent first waiter it asks at that waiter's deadline. Otherwise it asks at the end of
    the lease. It always asks within a third of the wait.
    """
    places.wait = 60.0
    places.has("a", lease=15)
    assert places.acquire("b") <= 15
    assert places.acquire("c") <= 15
    places.redis.persist(LOCK)
    assert places.acquire("b") == pytest.approx(20, abs=0.001)
    places.release("a")
    places.set_left(b=15)
    asleep = places.acquire("c")
    assert 0.001 <= asleep <= 15
    places.set_left(b=200)
    assert places.acquire("c") == pytest.approx(20, abs=0.001)


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


def test_the_dead_are_skipped_on_every_server(any_server: RedisServer) -> None:
    """The scripts skip the dead on every supported server."""
    with any_server.client() as client:
        test_the_dead_are_skipped_at_once(Places(client))


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


def test_who_died_together_goes_together(redis_client: redis.Redis) -> None:
    """Twenty waiters that fall silent together delay the next for one wait, not for twenty."""
    places = Places(redis_client, wait=0.4)
    places.has("a")
    for number in range(20):
        places.acquire(f"dead{number}")
    silent_at = time.monotonic()
    places.release("a")
    assert not places.has("b", enqueue=False) or time.monotonic() - silent_at > 0.3
    time.sleep(0.5)  # the time of the silent ends on the server's clock
    assert places.has("c"), "they go one by one"
    assert places.waiting == []


def test_a_waiter_that_asks_in_time_is_never_skipped(redis_client: redis.Redis) -> None:
    """A live waiter between dead ones keeps its place over many waits."""
    places = Places(redis_client, wait=1.5)
    places.has("a")
    for waiter in ("dead1", "alive", "dead2", "b"):
        places.acquire(waiter)
    end = time.monotonic() + 3 * 1.5

    def asked() -> bool:
        places.acquire("alive")
        places.acquire("b")
        return time.monotonic() > end

    wait_until(asked, 20, "several waits have passed")
    assert [waiter for waiter in places.waiting if waiter != "dead2"] == ["alive", "b"]
    places.release("a")
    assert not places.has("b")
    assert places.has("alive")
    places.release("alive")
    assert places.has("b")


def test_a_silent_one_who_is_still_there_keeps_its_place(places: Places) -> None:
    """A place past its deadline is kept by who asks before anybody has noticed."""
    places.has("a")
    places.acquire("b")
    places.acquire("c")
    places.set_left(b=-5)
    places.acquire("b")
    assert places.waiting == ["b", "c"]


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


def test_longer_waits_of_the_dead_shorten_nobody_elses(places: Places) -> None:
    """One with a longer wait that gets the lock over a dead one leaves all others their places."""
    places.has("a")
    places.acquire("dead")
    places.acquire("slow", wait=20)
    others = ["b", "c", "d", "e"]
    for waiter in others:
        places.acquire(waiter)
    places.set_left(dead=-1)
    places.redis.delete(LOCK)
    assert places.has("slow", wait=20)
    assert not places.has("f")
    assert places.waiting == [*others, "f"]
    assert min(places.left.values()) > 5 - NEAR


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
