"""The fair lock at a real server; `tests/fair` has the rules of its queue."""

from __future__ import annotations

import asyncio
import contextlib
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest
from tests.fair.places import LOCK, Places
from tests.lock.lock_like import until
from tests.support.patience import wait_until
from tests.support.proxy import drop_reply

import interlock
import interlock.asyncio
from interlock._core.queue.places import POLL
from interlock.errors import ServerUnavailableError

if TYPE_CHECKING:
    from collections.abc import Iterator

    import redis
    from tests.support.proxy import FaultProxy
    from tests.support.servers import RedisServer

PROMPT = 1.0
"""Seconds within which nobody asks by himself, unless the machine is slow."""


@pytest.fixture
def places(redis_client: redis.Redis) -> Places:
    """Give the lock as it is on the server."""
    return Places(redis_client)


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    """Give threads."""
    with ThreadPoolExecutor() as threads:
        yield threads


def _visit(lock: Any, timeout: float | None = None) -> bool:
    got: bool = lock.acquire(timeout=timeout)
    if got:
        lock.release()
    return got


def test_an_id_is_used_once(redis_url: str, places: Places) -> None:
    """Each acquire has an id of its own, so a late release of an earlier one changes nothing."""
    with interlock.connect(redis_url) as client:
        lock, ids = client.fair_lock(LOCK), set[str]()
        for _ in range(3):
            with lock:
                ids |= places.holders.keys()
        with lock:
            assert ids.isdisjoint(places.holders)
            assert not any(places.release(each) for each in ids)
            assert len(places.holders) == 1
    assert len(ids) == 3


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
        assert not other._driver.second.session.queues.places


def test_who_cannot_listen_has_his_turn(
    redis_url: str, places: Places, pool: ThreadPoolExecutor
) -> None:
    """With ``pubsub="off"`` a waiter asks again and again, and nobody passes it."""
    with (
        interlock.connect(redis_url, pubsub="off") as deaf,
        interlock.connect(redis_url) as other,
    ):
        with other.fair_lock(LOCK):
            first = pool.submit(_visit, deaf.fair_lock(LOCK))
            wait_until(lambda: len(places.waiting) == 1, 10, "it waits")
            second = pool.submit(_visit, other.fair_lock(LOCK))
            wait_until(lambda: len(places.waiting) == 2, 10, "the next one waits")
            began = time.monotonic()
        assert first.result(20)
        assert time.monotonic() - began < PROMPT
        assert second.result(20)


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


def test_a_lost_connection_costs_no_place(
    server: RedisServer, redis_url: str, places: Places, pool: ThreadPoolExecutor
) -> None:
    """A waiter whose subscription is lost asks, stands where it stood, and is told again."""
    with interlock.connect(redis_url) as client:
        with client.fair_lock(LOCK):
            waits = list[Any]()
            for count in (1, 2):
                waits.append(pool.submit(_visit, client.fair_lock(LOCK)))
                wait_until(lambda n=count: len(places.waiting) == n, 10, "it waits")
            before, listens = places.waiting, lambda: places.redis.pubsub_channels("*orders*")
            wait_until(lambda: len(listens()) == 2, 10, "both listen")
            server.execute("CLIENT", "KILL", "TYPE", "pubsub")
            wait_until(lambda: len(listens()) == 2, 10, "both listen again")
            assert places.waiting == before
            time.sleep(0.2)  # until both have asked, since they may have missed a message
            began = time.monotonic()
        assert all(each.result(20) for each in waits)
        assert time.monotonic() - began < PROMPT


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


async def test_a_cancelled_waiter_lets_the_next_one_have_it(redis_url: str, places: Places) -> None:
    """Its place is garbage: the release that is sent for it tells the next waiter."""
    places.has("java:1")
    async with interlock.asyncio.connect(redis_url) as client:

        async def visit() -> None:
            async with client.fair_lock(LOCK):
                pass

        waits = list[asyncio.Task[None]]()
        for count in (1, 2):
            waits.append(asyncio.create_task(visit()))
            await until(lambda n=count: len(places.waiting) == n, 10, "it waits")
        await asyncio.sleep(0.2)  # until both have asked for the second time
        with places.told() as messages:
            places.redis.delete(LOCK)
            last = places.waiting[-1]
            waits[0].cancel()
            await asyncio.wait_for(waits[1], 10)
        assert messages[0] == (last, "0")
        assert places.waiting == []
        with contextlib.suppress(asyncio.CancelledError):
            await waits[0]


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
