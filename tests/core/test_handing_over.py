"""A hold that goes to another process as its turn comes."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from tests.support.patience import wait_until

import interlock

if TYPE_CHECKING:
    import redis

NAME, QUEUE = "name", "interlock_queue:{name}"


def test_a_grant_is_handed_over_without_its_mark(redis_url: str, redis_client: redis.Redis) -> None:
    """Its client was not late, and the next waiter has its turn when the adopter has released."""
    with (
        interlock.connect(redis_url) as one,
        interlock.connect(redis_url) as other,
        ThreadPoolExecutor() as pool,
    ):
        lock, theirs = one.lock(NAME), other.lock(NAME)
        assert theirs.acquire()

        def give() -> Any:
            assert lock.acquire(timeout=20)
            return lock.hold.hand_over()

        waits = []
        for call in (give, lambda: lock.acquire(timeout=20)):
            waits.append(pool.submit(call))
            wait_until(lambda: redis_client.zcard(QUEUE) == len(waits), 10, "it stands there")
        theirs.release()
        given = waits[0].result(20)
        ((_, came),) = redis_client.zrange(QUEUE, 0, -1, withscores=True)
        assert came > 0, "only who still waits stands there"
        adopted = other.adopt(given)
        time.sleep(0.1)
        assert not waits[1].done()
        began = time.monotonic()
        adopted.release()
        assert waits[1].result(20)
        assert time.monotonic() < began + 1
