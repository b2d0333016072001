"""The group lock at a real server; `tests/objects/alone` has what users see."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING, Any

from tests.support.patience import wait_until

import interlock
from interlock._core.scripts.group_lock import GROUP_RELEASE

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    import redis


NAME, CHANNEL = "stock", "redisson_lock__channel:{stock}"


def _visit(lock: Any, timeout: float | None = None) -> bool:
    got: bool = lock.acquire(timeout=timeout)
    if got:
        lock.release()
    return got


def _waits(client: Any, count: int = 1) -> bool:
    """Return whether *count* wait in *client* for a message."""
    lines = list(client._driver.session.lines.values())
    places = [hold.place for line in lines if line.heard for hold in list(line.waiters)]
    return len([each for each in places if each and each.sent and each.told is None]) == count


def test_a_release_tells_how_much_it_had(redis_client: redis.Redis) -> None:
    """One that held some of the values only frees those, and says so."""
    script = GROUP_RELEASE["PUBLISH"].text
    redis_client.hset(NAME, mapping={"a": "c:1", "b": "c:2"})
    assert redis_client.eval(script, 1, NAME, "c:1", 0, CHANNEL, "", "a", "b") == 0
    assert redis_client.hgetall(NAME) == {b"b": b"c:2"}
    assert redis_client.eval(script, 1, NAME, "c:2", 0, CHANNEL, "", "b") == 1
    assert not redis_client.exists(NAME)


def test_a_message_lets_one_ask_for_each_set_of_values(
    redis_url: str, redis_client: redis.Redis, pool: ThreadPoolExecutor
) -> None:
    """Of those who want the same, the oldest asks."""
    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as other:
        with other.group_lock(NAME, ["a", "b"]):
            waits = list[Any]()
            for count, value in enumerate("aaabb", 1):
                waits.append(pool.submit(_visit, client.group_lock(NAME, [value])))
                wait_until(lambda n=count: _waits(client, n), 10, "it waits")
            before = redis_client.info("commandstats")["cmdstat_evalsha"]["calls"]
            redis_client.publish(CHANNEL, "0")
            time.sleep(0.3)
            asked = redis_client.info("commandstats")["cmdstat_evalsha"]["calls"] - before
            assert 2 <= asked < 5  # on a slow machine one may look by itself
        assert all(each.result(20) for each in waits)


def test_who_takes_it_again_and_again_stands_behind_who_waits_here(
    redis_url: str, pool: ThreadPoolExecutor
) -> None:
    """A thread that releases and acquires at once does not pass another one of its client."""
    with interlock.connect(redis_url) as client:
        lock, stop = client.group_lock(NAME, ["a", "b"]), threading.Event()
        started = threading.Event()

        def again_and_again() -> int:
            turns = 0
            while not stop.is_set():
                with lock:
                    started.set()
                    turns += 1
                    time.sleep(0.01)
            return turns

        busy = pool.submit(again_and_again)
        try:
            for _ in range(3):
                started.clear()
                assert started.wait(20)
                assert _visit(lock, 5)
        finally:
            stop.set()
        assert busy.result(20) > 2
