"""The queue on the server, script by script: who has a place, who is next, and who is told."""

from __future__ import annotations

import random
from typing import TYPE_CHECKING

import pytest
from tests.fair.places import LOCK, QUEUE, Places
from tests.support.cards import own_keys

from interlock._core.scripts.fair_lock import Queued

if TYPE_CHECKING:
    from tests.support.servers import RedisServer

NEAR = 1.0
"""Seconds that a busy machine may take between two commands."""


def test_it_goes_to_who_asked_first(places: Places) -> None:
    """When the lock is free only the first in the queue gets it, however often the others ask."""
    assert places.has("a")
    for waiter in "bcd":
        assert not places.has(waiter)
    for holder, waiter in zip("abc", "bcd", strict=True):
        assert places.release(holder)
        for other in "dcbe":
            if other != waiter:
                assert not places.has(other, enqueue=False)
        assert places.has(waiter)
    assert places.release("d")
    assert not own_keys(places.redis)


def test_a_single_try_takes_no_place(places: Places) -> None:
    """A try without waiting is refused while others wait for a free lock, and writes nothing."""
    places.has("a")
    assert not places.has("b", enqueue=False)
    assert places.redis.keys() == [LOCK.encode()]
    places.acquire("b")
    places.release("a")
    refusal = places.acquire("c", enqueue=False)
    assert not isinstance(refusal, Queued)
    assert (places.holders, places.waiting) == ({}, ["b"])


def test_a_single_try_keeps_a_place_that_there_is(places: Places) -> None:
    """Who has a place already, and tries once, still has it and is told so."""
    places.has("a")
    places.acquire("b")
    assert isinstance(places.acquire("b", enqueue=False), Queued)
    assert places.waiting == ["b"]


def test_asking_again_changes_nothing_but_the_deadline(places: Places) -> None:
    """Asking keeps the place, and the deadline counts from then."""
    places.has("a")
    for waiter in "bcd":
        places.acquire(waiter)
    places.set_left(b=2, c=3, d=4)
    assert isinstance(places.acquire("c"), Queued)
    assert places.waiting == ["b", "c", "d"]
    left = places.left
    assert 10 - NEAR < left["c"] <= 10
    assert left["b"] <= 2
    assert left["d"] <= 4


@pytest.mark.parametrize("free", [True, False])
def test_who_leaves_takes_a_wait_along(places: Places, free: bool) -> None:
    """Each deadline is one wait for each place, before and after a waiter leaves.

    If the lock is free, the new first waiter is told.
    """
    if not free:
        places.has("a")
    else:
        places.redis.rpush(QUEUE, "b")
        places.set_left(b=5)
    for waiter in "bcde":
        places.acquire(waiter) if waiter != "b" or not free else None
    with places.told() as messages:
        assert places.release("d")
        assert not places.release("d"), "twice changes nothing"
        assert places.waiting == ["b", "c", "e"]
        assert places.release("b")
        assert not places.release("b")
    assert messages == ([("c", "0")] if free else [])
    assert places.waiting == ["c", "e"]
    for place, waiter in enumerate(["c", "e"]):
        assert (place + 1) * 5 - NEAR < places.left[waiter] <= (place + 1) * 5


def test_a_release_tells_the_first_only(places: Places) -> None:
    """The last release of a hold tells the first waiter; an inner release tells nobody.

    Without waiters there is no message.
    """
    with places.told() as messages:
        places.has("a")
        places.has("a", depth=2)
        places.release("a", 1)
        places.release("a")
        places.has("a")
        places.acquire("b")
        places.acquire("c")
        places.has("a", depth=2)
        places.release("a", 1)
        assert messages == []
        places.release("a")
        assert places.has("b")
        assert places.force_release()
        assert not places.force_release()
    assert messages == [("b", "0"), ("c", "0")]
    assert places.waiting == ["c"]


def test_repeating_changes_nothing(places: Places) -> None:
    """Every script that is sent twice leaves what it left the first time."""
    for _ in range(2):
        assert places.has("a")
    for _ in range(2):
        assert isinstance(places.acquire("b"), Queued)
    assert (places.holders, places.waiting, set(places.left)) == ({"a": 1}, ["b"], {"b"})
    for _ in range(2):
        assert places.has("a", depth=2)
    for _ in range(2):
        assert places.release("a", 1)
    assert places.holders == {"a": 1}
    assert [places.release("a") for _ in range(2)] == [True, False]
    for _ in range(2):
        assert places.has("b")
    assert (places.holders, places.waiting, places.left) == ({"b": 1}, [], {})


def test_a_reentry_never_takes_it_anew(places: Places) -> None:
    """An owner that was deposed and enters again gets neither the lock nor a place."""
    assert not places.has("a", depth=2)
    assert not own_keys(places.redis)


def test_a_lease_is_never_shortened(places: Places) -> None:
    """Entering again with a shorter lease keeps the longer one."""
    places.has("a", lease=30)
    places.has("a", depth=2, lease=1)
    assert places.redis.pttl(LOCK) > 29_000 - NEAR * 1000


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


@pytest.mark.parametrize("odd", ODD)
def test_leaving_clears_up_whatever_is_odd(places: Places, odd: str) -> None:
    """Who leaves is in neither list nor zset afterwards, be they in step or not."""
    waiting, deadlines = ODD[odd]
    if waiting:
        places.redis.rpush(QUEUE, *waiting)
    if deadlines:
        places.set_left(**deadlines)
    places.release("b")
    assert "b" not in places.waiting
    assert "b" not in places.left


@pytest.mark.parametrize("seed", range(20))
def test_any_sequence_keeps_the_rules(places: Places, seed: int) -> None:
    """After any sequence of calls, list and zset agree, and grants follow the queue.

    Each deadline is bounded by the waiter's place.
    """
    rng = random.Random(seed)
    names = [f"w{number}" for number in range(6)]
    for _ in range(150):
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


def test_it_runs_on_every_server(any_server: RedisServer) -> None:
    """The scripts do the same on every supported server."""
    with any_server.client() as client:
        test_it_goes_to_who_asked_first(Places(client))
        test_a_release_tells_the_first_only(Places(client))
