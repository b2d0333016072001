"""Clients of several processes wait for permits with leases: who is next, and who delays whom."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.lock.children import Child
from tests.lock.queued import entering
from tests.semaphore.waiting import Waiting
from tests.support.servers import wait_until

import interlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from tests.support.servers import RedisServer

QUEUE = "interlock_semaphore_queue:{name}"
PROMPT = 10.0
"""Seconds: below the poll cap and the leases of these clients."""
TURNS = """
with interlock.connect(url, poll_cap=30) as client:
    limit = client.limited("name", 2)
    with limit:
        pass
    say("ready")
    seconds = float(sys.stdin.readline())
    turns, ends = 0, time.monotonic() + seconds
    while time.monotonic() < ends:
        with limit:
            turns += 1
    say(turns)
    sys.stdin.readline()
"""


@pytest.fixture
def giver(redis_url: str) -> Iterator[interlock.LeasedSemaphore]:
    """Give a semaphore with three permits."""
    with interlock.connect(redis_url, poll_cap=30) as client:
        semaphore = client.leased_semaphore("name")
        assert semaphore.try_set_permits(3)
        yield semaphore


@pytest.fixture
def enter(redis_url: str, redis_client: redis.Redis) -> Iterator[Callable[..., Waiting]]:
    """Give what makes another client wait, in the order of the calls."""
    begin = partial(Waiting, lambda client: client.leased_semaphore("name"), redis_url)
    with entering(redis_client, QUEUE, begin) as enter:
        yield enter


def test_a_newcomer_does_not_overtake(
    giver: interlock.LeasedSemaphore, enter: Callable[..., Waiting]
) -> None:
    """Who releases and asks again at once stands behind those who wait."""
    held = giver.acquire(3)
    waiting = [enter() for _ in range(4)]
    held.release()
    with pytest.raises(interlock.AcquireTimeoutError):
        giver.acquire(timeout=0)
    for each in waiting[:3]:
        each.got.result(PROMPT).release()
    waiting[3].got.result(PROMPT).release()
    giver.acquire(3, timeout=PROMPT).release()


def test_who_gives_up_leaves_the_queue(
    redis_client: redis.Redis, giver: interlock.LeasedSemaphore, enter: Callable[..., Waiting]
) -> None:
    """A wait that ends in vain leaves no place behind, and the next one is served at once."""
    held = giver.acquire(3)
    for permits in (3, 1):
        with pytest.raises(interlock.AcquireTimeoutError):
            enter(permits=permits, timeout=0.5).got.result(PROMPT)
    wait_until(lambda: redis_client.zcard(QUEUE) == 0, PROMPT, "nobody stands in the queue")
    second = enter()
    held.release()
    assert second.got.result(PROMPT)


def test_a_fleet_is_cheap_and_nobody_starves(redis_url: str, redis_client: redis.Redis) -> None:
    """Six processes share two permits: a turn takes three commands and one message."""
    with ExitStack() as stack:
        children = [stack.enter_context(Child(TURNS, redis_url)) for _ in range(6)]
        for each in children:
            assert each.hear() == "ready"
        redis_client.config_resetstat()
        for each in children:
            each.tell("1.5")
        turns = [int(each.hear()) for each in children]
        calls = redis_client.info("commandstats")
        assert calls["cmdstat_evalsha"]["calls"] <= 3.2 * sum(turns)
        assert calls["cmdstat_publish"]["calls"] <= 1.3 * sum(turns)
        # The benchmarks call a tenth starving. A busy machine stops single processes for long.
        assert max(turns) <= 10 * min(turns)
        wait_until(lambda: redis_client.get("name") == b"2", PROMPT, "all permits came back")


@pytest.mark.parametrize("lacking", ["exists", "zadd", "zrem", "pubsub|numsub"])
def test_who_lacks_a_part_of_the_rights_tells_all(fresh_server: RedisServer, lacking: str) -> None:
    """A release of a user who may not use the queue wakes all who wait."""
    with fresh_server.client() as server:
        rights = ["~*", "&*", "+@all", f"-{lacking}"]
        if lacking in {"zadd", "zrem"}:  # these it needs for the leases
            rights = [
                "resetkeys",
                "~name",
                "~{name}*",
                "~redisson*",
                "~interlock_r*",
                "&*",
                "+@all",
            ]
        server.execute_command("ACL", "SETUSER", "part", "on", ">x", *rights)
    with (
        interlock.connect(fresh_server.url(0, "part", "x"), card=False) as part,
        interlock.connect(fresh_server.url(), poll_cap=60) as one,
        ThreadPoolExecutor(1) as pool,
        fresh_server.client() as server,
    ):
        semaphore = part.leased_semaphore("name")
        assert semaphore.try_set_permits(1)
        held = semaphore.acquire()
        waiting = pool.submit(one.leased_semaphore("name").acquire)
        wait_until(lambda: server.zcard(QUEUE) == 1, 10, "it stands in the queue")
        held.release()
        assert waiting.result(20)
