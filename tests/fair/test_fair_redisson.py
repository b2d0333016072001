"""One queue for Python and Java: each keeps the order, whichever waits before the other."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from tests.fair.places import LOCK, QUEUE, TIMEOUTS
from tests.fair.redisson import Redisson
from tests.support.cards import own_keys

if TYPE_CHECKING:
    from tests.fair.places import Places

WAITS = {"redisson's default": 300.0, "the same wait": 5.0}


@pytest.fixture(params=WAITS.values(), ids=WAITS)
def java_wait(request: pytest.FixtureRequest) -> float:
    """Give the wait of the Java side: its default, and ours."""
    return request.param


class _Mixed:
    """Waiters of both languages; those whose names begin with j are Java's."""

    def __init__(self, places: Places, java_wait: float) -> None:
        self._places = places
        self._java_wait = java_wait

    def has(self, who: str) -> bool:
        if who.startswith("j"):
            return Redisson(self._places, who, self._java_wait).has()
        return self._places.has(who)

    def release(self, who: str) -> bool:
        if who.startswith("j"):
            return Redisson(self._places, who, self._java_wait).release()
        return self._places.release(who)

    def leave(self, who: str) -> None:
        if who.startswith("j"):
            Redisson(self._places, who, self._java_wait).give_up()
        else:
            self._places.release(who)


CROWDS = ["jpjp", "pjpj", "jjpp", "ppjj", "jjjjpjp", "pjjjpppj"]


@pytest.mark.parametrize("crowd", CROWDS)
@pytest.mark.parametrize("first", ["java", "python"])
def test_both_are_served_in_order(places: Places, java_wait: float, crowd: str, first: str) -> None:
    """Hand-overs between Python and Java follow the order of asking, with no refresh in between."""
    mixed = _Mixed(places, java_wait)
    queue = [f"{kind}{number}" for number, kind in enumerate(crowd)]
    assert mixed.has(first)
    for waiter in queue:
        assert not mixed.has(waiter)
    assert places.waiting == queue
    holder = first
    for at, waiter in enumerate(queue):
        with places.told() as messages:
            assert mixed.release(holder)
        assert messages == [(waiter, "0")]
        assert places.waiting == queue[at:]
        for other in queue[at + 1 :]:
            if other.startswith("p"):
                assert not mixed.has(other)
        assert mixed.has(waiter)
        holder = waiter
    assert mixed.release(holder)
    assert not own_keys(places.redis)


@pytest.mark.parametrize("crowd", CROWDS)
def test_quick_hand_overs_leave_nobody_behind(places: Places, java_wait: float, crowd: str) -> None:
    """A hand-over drops no live waiter, even if those behind cannot ask in the meantime."""
    mixed = _Mixed(places, java_wait)
    queue = [f"{kind}{number}" for number, kind in enumerate(crowd)]
    mixed.has("java")
    for waiter in queue:
        mixed.has(waiter)
    mixed.release("java")
    for waiter in queue:
        assert mixed.has(waiter)
        mixed.release(waiter)
    assert not own_keys(places.redis)


@pytest.mark.parametrize("age", [60.0, 250.0])
def test_one_who_has_waited_long_in_java_drops_nobody(places: Places, age: float) -> None:
    """A Python waiter keeps its place when an old Java waiter in front of it goes.

    The deadline of a Java waiter is not renewed.
    """
    java = Redisson(places, "j0")
    places.has("a")
    java.has()
    places.redis.zincrby(TIMEOUTS, -age * 1000, "j0")
    places.acquire("p1")
    places.release("a")
    assert java.has()
    assert java.release()
    assert places.waiting == ["p1"]
    assert places.has("p1")


def test_a_dead_java_waiter_counts_as_long_as_it_asked_for(places: Places) -> None:
    """A Java waiter is not taken for dead before its own deadline, and is skipped after it."""
    places.redis.rpush(QUEUE, "j0")
    places.set_left(j0=100)
    assert not places.has("p1")
    assert places.waiting == ["j0", "p1"]
    places.set_left(j0=-1)
    assert places.has("p1")
    assert set(places.redis.keys()) == {LOCK.encode()}


@pytest.mark.parametrize("how", ["release", "force_release", "acquire"])
def test_twenty_dead_before_one_of_javas(places: Places, how: str) -> None:
    """A deadline that Java has set is not cut, however many dead places any script skips."""
    places.has("a")
    for number in range(20):
        places.acquire(f"dead{number}")
    places.set_left(**{f"dead{number}": -1.0 for number in range(20)})
    places.redis.rpush(QUEUE, "j0")
    places.set_left(j0=17)
    match how:
        case "release":
            places.release("a")
        case "force_release":
            places.force_release()
        case _:
            places.acquire("b", enqueue=False)
    assert places.waiting == ["j0"]
    assert 15 < places.left["j0"] <= 17
