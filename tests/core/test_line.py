"""The server's queue, where no face can see a rule."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from tests.support.patience import wait_until

import interlock
from interlock._core.locks.release import Release
from interlock._core.model.hold import ENDED

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    import redis
    from tests.support.servers import RedisServer

NAME = "the name"
QUEUE, HELD = f"interlock_queue:{{{NAME}}}", "another:000000000001"


def test_a_mark_does_not_outlive_an_ask(
    redis_url: str, redis_client: redis.Redis, pool: ThreadPoolExecutor
) -> None:
    """Who let a grant end, and asks while another one holds the lock, stands at the end, unmarked."""
    redis_client.hset(NAME, HELD, 1)
    with interlock.connect(redis_url) as client:
        lock: Any = client.lock(NAME)
        got = pool.submit(lock.acquire, timeout=60)
        wait_until(lambda: redis_client.zcard(QUEUE) == 1, 10, "it stands in the queue")
        ((member, came),) = redis_client.zrange(QUEUE, 0, -1, withscores=True)
        wait_until(lambda: lock._core.session.lines[lock._core.channel].ready, 10, "it listens")
        redis_client.zadd(QUEUE, {member: -came}, xx=True)
        wake = f"interlock_wake:{{{NAME}}}:{lock._core.session.client_id}"
        redis_client.publish(wake, member.partition(b":")[2])
        wait_until(lambda: redis_client.zscore(QUEUE, member) > came, 10, "it has joined again")
        redis_client.delete(NAME)
        redis_client.publish(wake, member.partition(b":")[2])
        assert got.result(20)


def test_a_grant_for_nobody_is_released(
    redis_url: str, redis_client: redis.Redis, pool: ThreadPoolExecutor
) -> None:
    """Whoever was granted the lock may have gone meanwhile: its client releases it at once."""
    redis_client.hset(NAME, HELD, 1)
    with interlock.connect(redis_url) as client:
        lock: Any = client.lock(NAME)
        got = pool.submit(lock.acquire, timeout=60)
        wait_until(lambda: _hears(lock), 10, "it listens")
        wait_until(lambda: redis_client.zcard(QUEUE) == 1, 10, "it stands in the queue")
        redis_client.delete(NAME)
        redis_client.hset(NAME, f"{client.client_id}:000000000007", 1)
        seconds, micros = redis_client.time()
        news = f"000000000007|{seconds * 10**6 + micros}||1"
        redis_client.publish(f"interlock_wake:{{{NAME}}}:{client.client_id}", news)
        assert got.result(20)


def _hears(lock: Any) -> bool:
    return any(line.ready for line in list(lock._core.session.lines.values()))


def test_a_release_is_sent_again_after_a_lost_subscription(
    server: RedisServer, redis_url: str, redis_client: redis.Redis, pool: ThreadPoolExecutor
) -> None:
    """The next acquire of the same client, or of a waiter, gets the lock soon."""
    with interlock.connect(redis_url) as client:
        lock: Any = client.lock(NAME)
        other: Any = client.lock("another")
        assert lock.acquire()
        (holder,) = redis_client.hkeys(NAME)
        lock.release()
        redis_client.hset("another", HELD, 1)
        waiting = pool.submit(other.acquire, timeout=60)
        wait_until(lambda: _hears(other), 10, "it listens")
        redis_client.hset(NAME, holder, 1)
        redis_client.pexpire(NAME, 30_000)
        server.execute("CLIENT", "KILL", "TYPE", "pubsub")
        assert lock.acquire(timeout=10)
        lock.release()
        redis_client.delete("another")
        assert waiting.result(20)


@pytest.mark.parametrize("kind", ["lock", "fenced_lock"])
def test_a_lost_connection_costs_no_place(
    server: RedisServer,
    redis_url: str,
    redis_client: redis.Redis,
    pool: ThreadPoolExecutor,
    kind: str,
) -> None:
    """Who was passed over because his client did not listen for a moment stands where he stood."""
    redis_client.hset(NAME, HELD, 1)
    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as other:
        lock: Any = getattr(client, kind)(NAME)
        later: Any = getattr(other, kind)(NAME)
        waits = [pool.submit(lock.acquire, timeout=60)]
        wait_until(lambda: redis_client.zcard(QUEUE) == 1, 10, "it stands in the queue")
        ((member, came),) = redis_client.zrange(QUEUE, 0, -1, withscores=True)
        waits.append(pool.submit(later.acquire, timeout=60))
        wait_until(lambda: redis_client.zcard(QUEUE) == 2, 10, "both stand in the queue")
        redis_client.zrem(QUEUE, member)
        server.execute("CLIENT", "KILL", "TYPE", "pubsub")
        wait_until(
            lambda: redis_client.zscore(QUEUE, member) is not None, 10, "it has joined again"
        )
        assert redis_client.zscore(QUEUE, member) == came
        wait_until(lambda: _hears(lock), 10, "it listens")
        redis_client.delete(NAME)
        assert waits[0].result(20)
        assert not waits[1].done()
        redis_client.delete(NAME)
        assert waits[1].result(20)


def test_a_release_that_was_sent_again_meanwhile_is_no_loss(
    redis_url: str, redis_client: redis.Redis
) -> None:
    """Another thread's command has failed, so the background releases the same id, and is first."""
    with interlock.connect(redis_url) as client:
        lock: Any = client.lock(NAME)
        assert lock.acquire()
        driver, step = lock._driver, Release().of(lock.hold._hold)
        assert step.begin() is not None
        driver.session.resend()
        redis_client.delete(NAME)
        assert not step.done(None)
        driver.run(step.rest(None))
        assert step.hold.over is ENDED
