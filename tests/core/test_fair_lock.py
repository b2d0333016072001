"""The fair lock at a real server; `tests/objects/alone` has the rules of its queue."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pytest
from tests.objects.alone.fair_places import LOCK, Places
from tests.support.patience import wait_until
from tests.support.proxy import drop_reply

import interlock
import interlock.asyncio
from interlock._core.queue.places import POLL
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from concurrent.futures import ThreadPoolExecutor

    import redis
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer

PROMPT = 1.0
"""Seconds within which nobody asks by himself, unless the machine is slow."""


@pytest.fixture
def places(redis_client: redis.Redis) -> Places:
    """Give the lock as it is on the server."""
    return Places(redis_client)


def _visit(lock: Any, timeout: float | None = None) -> bool:
    got: bool = lock.acquire(timeout=timeout)
    if got:
        lock.release()
    return got


def test_a_reentry_names_one_key(proxy: FaultProxy) -> None:
    """Who enters again asks no queue; its first acquire and its last release do."""
    with interlock.connect(proxy.url(), card=False) as client:
        lock = client.fair_lock(LOCK)
        with lock:
            pass
        before = len(proxy.record)
        with lock, lock:
            pass
        calls = [each.args for each in proxy.record[before:] if each.args[0] == b"EVALSHA"]
    assert [int(args[2]) for args in calls] == [3, 1, 3, 3]


def test_a_waiter_hears_its_own_channel_only(
    redis_url: str, places: Places, pool: ThreadPoolExecutor
) -> None:
    """It is subscribed to while it waits, and not for much longer."""

    def channels() -> list[str]:
        found: Any = places.redis.pubsub_channels("*orders*")
        return [each.decode() for each in found]

    with interlock.connect(redis_url) as client, interlock.connect(redis_url) as other:
        with client.fair_lock(LOCK):
            waiting = pool.submit(_visit, other.fair_lock(LOCK))
            wait_until(lambda: len(channels()) == 1, 10, "it listens")
            assert channels() == [f"redisson_lock__channel:{{orders}}:{places.waiting[0]}"]
        assert waiting.result(20)
        wait_until(lambda: not channels(), 10, "it hears it no more")
        assert not other._driver.session.queues.places


def test_who_may_not_publish_lets_others_find_out(
    server: RedisServer, places: Places, pool: ThreadPoolExecutor
) -> None:
    """A release without the right to PUBLISH is done; the next one finds the lock at its look."""
    server.execute("ACL", "SETUSER", "poor", "on", ">secret", "~*", "&*", "+@all", "-publish")
    url = server.url(0, "poor", "secret")
    try:
        with interlock.connect(url, card=False) as client, interlock.connect(url) as other:
            with client.fair_lock(LOCK):
                waiting = pool.submit(_visit, other.fair_lock(LOCK))
                wait_until(lambda: len(places.waiting) == 1, 10, "it waits")
                began = time.monotonic()
            assert not places.holders
            assert waiting.result(20)
            assert time.monotonic() - began < POLL + PROMPT
    finally:
        server.execute("ACL", "DELUSER", "poor")


def test_a_full_server_keeps_who_waits(fresh_server: RedisServer, pool: ThreadPoolExecutor) -> None:
    """Who stands in the queue waits on, and has its turn; a newcomer is refused, and leaves nothing."""
    url = fresh_server.url()
    with (
        fresh_server.client() as seen,
        interlock.connect(url, fair_wait=1) as client,
        interlock.connect(url) as other,
    ):
        places = Places(seen)
        with client.fair_lock(LOCK):
            waiting = pool.submit(_visit, client.fair_lock(LOCK))
            wait_until(lambda: len(places.waiting) == 1, 10, "it waits")
            before = places.waiting
            fresh_server.execute("CONFIG", "SET", "maxmemory", 1)
            with pytest.raises(ServerUnavailableError):
                other.fair_lock(LOCK).acquire()
            time.sleep(1.5)  # it has to ask again and again meanwhile, to keep its place
            assert places.waiting == before
        assert waiting.result(20)
        fresh_server.execute("CONFIG", "SET", "maxmemory", 0)
        assert not places.waiting
        assert not places.left


def test_a_try_without_an_answer_leaves_no_place(
    proxy: FaultProxy, redis_url: str, places: Places
) -> None:
    """What joined the queue and never knew of it is released, and the next one has the lock."""
    with (
        interlock.connect(proxy.url(), command_timeout=0.3, outage_timeout=0.3) as client,
        interlock.connect(redis_url) as other,
    ):
        lock = client.fair_lock(LOCK)
        with lock:
            pass
        with other.fair_lock(LOCK):
            proxy.on_request(lambda args: b"30000" in args, drop_reply)
            with pytest.raises(ServerUnavailableError):
                lock.acquire(timeout=10)
            proxy.clear_rules()
            wait_until(lambda: not (places.waiting or places.left), 10, "its place is gone")
        assert _visit(lock, 10)
