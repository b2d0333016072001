"""A hold that goes to another process, or ends while its lock stays locked."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import wait_until
from tests.support.proxy import command, drop_request

import interlock
import interlock.asyncio
from interlock import (
    ServerUnavailableError,
)

if TYPE_CHECKING:
    import redis
    from tests.support.proxy import FaultProxy

NAME, QUEUE = "name", "interlock_queue:{name}"
SOON = 5.0
"""Seconds; a lease is 30."""


def freed(redis_client: redis.Redis) -> None:
    """Wait until nobody holds it."""
    wait_until(lambda: not redis_client.exists(NAME), SOON, "it is free")


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


def test_a_lock_that_could_not_be_left_stays_locked(
    redis_client: redis.Redis, proxy: FaultProxy
) -> None:
    """Without an answer the hold is over, and the lock is locked until the lease ends."""
    options: Any = {"outage_timeout": 0.3, "command_timeout": 0.2, "lease": 2}
    with interlock.connect(proxy.url(), **options) as client:
        lock = client.lock(NAME)
        assert lock.acquire()
        hold = lock.hold
        proxy.on_request(command("EVALSHA"), drop_request)
        with pytest.raises(ServerUnavailableError):
            hold._leave_locked(1)
        proxy.clear_rules()
        assert not hold
        time.sleep(0.3)
        assert redis_client.exists(NAME)
        freed(redis_client)
