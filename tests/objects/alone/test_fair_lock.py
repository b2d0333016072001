"""A fair lock's queue, where waiters are dead, have a skewed clock, or where half of an entry is gone."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

import pytest
import redis
from tests.support.cards import own_keys
from tests.support.child import Child
from tests.support.servers import wait_until

import interlock
from interlock._core.model.effects import Eval
from interlock._core.scripts import fair_lock as scripts
from interlock._core.scripts.replies import Grant, milliseconds

LOCK = "orders"
QUEUE = "redisson_lock_queue:{orders}"
TIMEOUTS = "redisson_lock_timeout:{orders}"
CHANNEL = "redisson_lock__channel:{orders}"
KEYS = (LOCK, QUEUE, TIMEOUTS)


class Places:
    """The fair lock ``orders`` on a server; holders are any words."""

    def __init__(self, redis_client: redis.Redis) -> None:
        self.redis = redis_client

    def acquire(self, holder: str, *, wait: float = 5.0) -> Grant | float:
        """Ask for the lock; a grant, or within how many seconds to ask again."""
        args = (milliseconds(30), holder, 1, milliseconds(wait), CHANNEL)
        return self._run(Eval(scripts.FAIR_ASK["PUBLISH"], KEYS, args))

    def has(self, holder: str, **options: Any) -> bool:
        """Ask for the lock; return whether *holder* has it now."""
        return isinstance(self.acquire(holder, **options), Grant)

    def release(self, holder: str, *, wait: float = 5.0) -> bool:
        """Release, or leave the queue; return whether *holder* was there."""
        args = (holder, 0, milliseconds(wait), CHANNEL)
        call = Eval(scripts.FAIR_RELEASE["PUBLISH"], KEYS, args)
        return self._run(call) is not None

    @property
    def holders(self) -> dict[str, int]:
        return {k.decode(): int(v) for k, v in self.redis.hgetall(LOCK).items()}

    @property
    def waiting(self) -> list[str]:
        return [holder.decode() for holder in self.redis.lrange(QUEUE, 0, -1)]

    @property
    def left(self) -> dict[str, float]:
        """Seconds until the deadline of each, by the server's clock."""
        with self.redis.pipeline(transaction=True) as both:  # nothing happens in between
            (seconds, micros), scores = (
                both.time().zrange(TIMEOUTS, 0, -1, withscores=True).execute()
            )
        now = seconds + micros / 1e6
        return {holder.decode(): score / 1000 - now for holder, score in scores}

    def set_left(self, **seconds: float) -> None:
        clock, micros = self.redis.time()
        now = clock + micros / 1e6
        self.redis.zadd(TIMEOUTS, {holder: int((now + s) * 1000) for holder, s in seconds.items()})

    @contextlib.contextmanager
    def told(self) -> Iterator[list[tuple[str, str]]]:
        """Give a list that has, at the end, all messages that were sent: to whom, and what."""
        messages: list[tuple[str, str]] = []
        with self.redis.pubsub() as subscriber:
            subscriber.psubscribe("*")
            assert subscriber.get_message(timeout=5)["type"] == "psubscribe"
            yield messages
            self.redis.publish("the end", "")
            while (message := subscriber.get_message(timeout=5))["channel"] != b"the end":
                channel, data = message["channel"].decode(), message["data"].decode()
                assert channel.startswith(f"{CHANNEL}:")
                messages.append((channel.removeprefix(f"{CHANNEL}:"), data))

    def _run(self, call: Eval[Any]) -> Any:
        reply = self.redis.eval(call.script.text, len(call.keys), *call.keys, *call.args)
        return call.script.decode(reply)


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
        assert client.fair_lock(LOCK).acquire(timeout=10)
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
        behind.join(60)
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
    """If half of an entry is missing, a waiter gets a free lock at once, and nothing is left."""
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


@pytest.mark.parametrize("how", ["release", "leave"])
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
        places.release("a" if how == "release" else "first")
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
