"""Clients of several processes wait for permits: who is next, and who delays whom."""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import TYPE_CHECKING

import pytest
from tests.lock.children import Child
from tests.lock.lock_like import resting
from tests.lock.queued import entering
from tests.semaphore.waiting import Waiting
from tests.support.servers import wait_until

import interlock

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from tests.support.servers import RedisServer

QUEUE = "interlock_semaphore_queue:{name}"
CHANNEL = "redisson_sc:{name}"
PROMPT = 10
"""Seconds: far below the poll cap of these clients."""
TURNS = """
with interlock.connect(url, poll_cap=30) as client:
    say("ready")
    for line in sys.stdin:
        name, seconds = line.split()
        semaphore = client.semaphore(name)
        turns, ends = 0, time.monotonic() + float(seconds)
        while time.monotonic() < ends:
            with semaphore:
                time.sleep(0.001)  # the commands of a turn are counted
            turns += 1
        say(turns)
"""


@pytest.fixture
def giver(redis_url: str, redis_client: redis.Redis) -> Iterator[interlock.Semaphore]:
    """Give the semaphore, without permits, of a client that releases."""
    redis_client.set("name", 0)
    with interlock.connect(redis_url, poll_cap=30) as client:
        yield client.semaphore("name")


@pytest.fixture
def enter(redis_url: str, redis_client: redis.Redis) -> Iterator[Callable[..., Waiting]]:
    """Give what makes another client wait, in the order of the calls."""
    begin = partial(Waiting, lambda client: client.semaphore("name"), redis_url)
    with entering(redis_client, QUEUE, begin) as enter:
        yield enter


def test_a_fleet_is_cheap_and_nobody_starves(redis_url: str, redis_client: redis.Redis) -> None:
    """Six processes share one permit, and four: a turn takes three commands and one message."""
    with ExitStack() as stack:
        children = [stack.enter_context(Child(TURNS, redis_url)) for _ in range(6)]
        for each in children:
            assert each.hear() == "ready"
        for permits in (1, 4):
            redis_client.set(f"of{permits}", permits)
            redis_client.config_resetstat()
            for each in children:
                each.tell(f"of{permits} 3")
            turns = [int(each.hear()) for each in children]
            calls = redis_client.info("commandstats")
            # Each process also comes and goes. It looks again when a busy machine stops another one
            # for longer than a claim. In 3 s that is twelve times at most.
            assert calls["cmdstat_evalsha"]["calls"] <= 3.2 * sum(turns) + 14 * len(children)
            assert calls["cmdstat_publish"]["calls"] <= 1.3 * sum(turns) + 2 * len(children)
            # The benchmarks call a tenth starving. A busy machine stops single processes for long,
            # but not for nine tenths of the time. If it stops the server, few turns tell nothing.
            assert max(turns) <= 10 * min(turns) + 20, turns
            assert redis_client.get(f"of{permits}") == str(permits).encode()


OLD_ACQUIRE = """
if tonumber(redis.call('get', KEYS[1]) or 0) < 1 then return 0 end
redis.call('decr', KEYS[1])
return 1
"""
OLD_RELEASE = "redis.call('publish', ARGV[1], redis.call('incr', KEYS[1]))"


def old(redis_client: redis.Redis, until: float) -> list[float]:
    """Take turns as Redisson does: hear one channel, and then ask."""
    waits: list[float] = []
    with redis_client.pubsub(ignore_subscribe_messages=True) as ears:
        ears.subscribe(CHANNEL)
        while (began := time.monotonic()) < until:
            while not redis_client.eval(OLD_ACQUIRE, 1, "name"):
                ears.get_message(timeout=5)
            waits.append(time.monotonic() - began)
            redis_client.ping()
            redis_client.eval(OLD_RELEASE, 1, "name", CHANNEL)
    return waits


def new(url: str, until: float) -> list[float]:
    """Take turns as a client of this release."""
    waits: list[float] = []
    with interlock.connect(url, poll_cap=30) as client:
        semaphore = client.semaphore("name")
        while (began := time.monotonic()) < until:
            semaphore.acquire()
            waits.append(time.monotonic() - began)
            semaphore.available_permits()
            semaphore.release()
    return waits


@pytest.mark.parametrize("permits", [1, 2])
def test_old_and_new_have_their_turns(
    redis_url: str, redis_client: redis.Redis, permits: int
) -> None:
    """Beside clients that stand in no queue all get permits, and nobody waits for a poll cap."""
    redis_client.set("name", permits)
    ends = time.monotonic() + 1.5
    with ThreadPoolExecutor(5) as pool:
        done = [pool.submit(new, redis_url, ends) for _ in range(3)]
        done += [pool.submit(old, redis_client, ends) for _ in range(2)]
        waits = [each.result(20) for each in done]
    assert all(waits), "each had a turn"
    assert redis_client.get("name") == str(permits).encode()


def test_who_may_not_hear_of_its_turn_hears_of_all(fresh_server: RedisServer) -> None:
    """A user without the rights to the queue waits without one, and is told."""
    fresh_server.execute("ACL", "SETUSER", "app", "reset", *EARLIER.split())
    url = fresh_server.url(0, "app", "secret")
    with (
        interlock.connect(url, poll_cap=30, card=False) as one,
        interlock.connect(fresh_server.url(), poll_cap=30) as two,
        ThreadPoolExecutor(2) as pool,
        fresh_server.client() as server,
    ):
        theirs = [pool.submit(client.semaphore("name").acquire) for client in (one, two)]
        wait_until(lambda: server.pubsub_numsub(CHANNEL)[0][1] == 2, 5, "both hear")
        wait_until(lambda: server.zcard(QUEUE) == 1, 5, "one stands in the queue")
        wait_until(resting(one, two, count=2), 10, "both have looked after that")
        for giver in (one, two):
            giver.semaphore("name").release()
        assert all(each.result(PROMPT) for each in theirs)


EARLIER = (
    "on >secret resetkeys ~name ~redisson_unlock_latch:{name}:* resetchannels &redisson_sc:{name}"
    " -@all +evalsha +eval +decrby +del +exists +get +incrby +set +publish +subscribe"
    " +unsubscribe +ping"
)


@contextmanager
def beside_a_part(
    server: RedisServer, *rights: str
) -> Iterator[tuple[interlock.Client, interlock.Client, ThreadPoolExecutor, redis.Redis]]:
    """Give a client whose user has *rights*, another client, a thread, and one who looks on."""
    with (
        server.client() as looker,
        ThreadPoolExecutor(1) as pool,
        interlock.connect(server.url(), poll_cap=60) as one,
    ):
        looker.execute_command("ACL", "SETUSER", "part", "on", ">x", *rights)
        with interlock.connect(server.url(0, "part", "x"), card=False) as part:
            yield part, one, pool, looker


def test_who_may_not_wake_the_first_tells_all(fresh_server: RedisServer) -> None:
    """A release of a user with the queue's key, but not its channels, wakes all who wait."""
    with beside_a_part(fresh_server, "~*", "&redisson_*", "+@all") as (half, one, pool, server):
        waiting = pool.submit(one.semaphore("name").acquire)
        wait_until(lambda: server.zcard(QUEUE) == 1, 5, "it stands in the queue")
        wait_until(lambda: server.pubsub_numsub(CHANNEL)[0][1] == 1, 5, "it hears")
        half.semaphore("name").release()
        assert waiting.result(PROMPT)


@pytest.mark.parametrize("lacking", ["exists", "zrange", "zadd", "zrem", "time", "pubsub|numsub"])
def test_who_lacks_a_part_of_the_rights_tells_all(fresh_server: RedisServer, lacking: str) -> None:
    """A release of a user without one of the queue's commands is none that nobody hears of."""
    rights = ("~*", "&*", "+@all", f"-{lacking}")
    with beside_a_part(fresh_server, *rights) as (part, one, pool, server):
        waiting = pool.submit(one.semaphore("name").acquire)
        wait_until(lambda: server.zcard(QUEUE) == 1, 10, "it stands in the queue")
        wait_until(lambda: server.pubsub_numsub(CHANNEL)[0][1] == 1, 10, "it hears")
        wait_until(resting(one), 10, "it has looked after that")
        part.semaphore("name").release()
        assert waiting.result(30)  # half a poll cap
        assert server.get("name") == b"0"


@pytest.mark.parametrize("lacking", ["exists", "zadd", "zrem", "pubsub|numsub"])
def test_who_lacks_a_part_of_the_rights_releases_permits_with_leases(
    fresh_server: RedisServer, lacking: str
) -> None:
    """A release of permits with leases wakes all who wait, if its user may not use the queue."""
    rights = ["~*", "&*", "+@all", f"-{lacking}"]
    if lacking in {"zadd", "zrem"}:  # these it needs for the leases
        own = ("~name", "~{name}*", "~redisson*", "~interlock_r*")
        rights = ["resetkeys", *own, "&*", "+@all"]
    with beside_a_part(fresh_server, *rights) as (part, one, pool, server):
        semaphore = part.leased_semaphore("name")
        assert semaphore.try_set_permits(1)
        held = semaphore.acquire()
        waiting = pool.submit(one.leased_semaphore("name").acquire)
        wait_until(lambda: server.zcard(QUEUE) == 1, 10, "it stands in the queue")
        held.release()
        assert waiting.result(20)


def test_a_leased_semaphore_shares_the_number(
    giver: interlock.Semaphore, redis_client: redis.Redis, enter: Callable[..., Waiting]
) -> None:
    """A waiter of the same client for a leased permit of that name stands in the same queue."""
    first = enter()
    with ThreadPoolExecutor(1) as pool:
        second = pool.submit(first.client.leased_semaphore("name").acquire)
        wait_until(lambda: redis_client.zcard(QUEUE) == 2, 5, "both stand in the queue")
        giver.release(2)
        assert first.got.result(PROMPT)
        second.result(PROMPT).release()
    assert redis_client.get("name") == b"1"
