"""Clients of several processes wait for one lock: who is next, and who delays whom."""

from __future__ import annotations

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any

import pytest
from tests.lock.lock_like import resting
from tests.lock.queued import entering, first_process
from tests.support.servers import wait_until

import interlock
from interlock._core.scripts.lock import (
    lock_acquire,
    lock_force_release,
    lock_release,
)
from interlock._core.scripts.script import stand_in_queue

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    import redis
    from tests.lock.children import Child
    from tests.support.servers import RedisServer

QUEUE = "interlock_queue:{name}"
CHANNEL = "redisson_lock__channel:{name}"
READ_WRITE_CHANNEL = "redisson_rwlock:{name}"
PROMPT = 10
"""Seconds: far below the poll cap of these clients."""
SOON = 15
"""Seconds within which a look comes on a busy machine; a poll would come after 30 s."""
WAIT = """
client = interlock.connect(url, poll_cap=30)
lock = MAKE
say("waits")
lock.acquire()
say("held")
sys.stdin.readline()
"""


MAKE = {
    "lock": 'client.lock("name")',
    "fenced_lock": 'client.fenced_lock("name")',
    "write_lock": 'client.read_write_lock("name").write',
}
"""How a child process makes a lock of each kind."""


def lock_of(client: interlock.Client, kind: str, **options: Any) -> Any:
    """Return the lock *name* of *kind*."""
    if kind == "write_lock":
        return client.read_write_lock("name", **options).write
    return getattr(client, kind)("name", **options)


def channel_of(kind: str) -> str:
    """Return where a release is announced."""
    return READ_WRITE_CHANNEL if kind == "write_lock" else CHANNEL


class Waiting:
    """Somebody who waits in a client of its own; anybody may release for it."""

    def __init__(self, url: str, kind: str, pool: ThreadPoolExecutor, **options: Any) -> None:
        self.client = interlock.connect(url, **{"poll_cap": 30, **options})
        self.lock = lock_of(self.client, kind)
        self.got = pool.submit(self._acquire)

    def _acquire(self) -> float:
        self.lock.acquire()
        return time.monotonic()


@pytest.fixture(params=MAKE)
def kind(request: pytest.FixtureRequest) -> str:
    """Give all kinds of locks that have a queue."""
    return request.param


@pytest.fixture
def holder(redis_url: str, kind: str) -> Iterator[Any]:
    """Give the lock of a client that holds it."""
    with interlock.connect(redis_url, poll_cap=30) as client:
        lock = lock_of(client, kind)
        lock.acquire()
        yield lock


@pytest.fixture
def enter(redis_url: str, redis_client: redis.Redis, kind: str) -> Iterator[Callable[..., Waiting]]:
    """Give what makes another client wait, in the order of the calls."""
    begin = partial(Waiting, redis_url, kind)
    with entering(redis_client, QUEUE, begin) as enter:
        yield enter


@pytest.fixture
def child(redis_url: str, redis_client: redis.Redis, kind: str) -> Iterator[Child]:
    """Give a process that waits: name *holder* before it, and it is the first in the queue."""
    code = WAIT.replace("MAKE", MAKE[kind])
    with first_process(redis_client, QUEUE, code, redis_url) as waiter:
        yield waiter


def test_a_release_passes_over_so_many_dead_clients(
    holder: Any, redis_client: redis.Redis, enter: Callable[..., Waiting]
) -> None:
    """If a thousand clients died at once, a release looks at 128 of them and tells all who live."""
    waiting = enter()
    redis_client.zadd(QUEUE, {f"dead-{number}": number for number in range(1000)})
    holder.release()
    waiting.got.result(PROMPT)
    assert redis_client.zcard(QUEUE) == 1000 - 128


def test_the_queue_ends_by_itself(holder: Any, child: Child, redis_client: redis.Redis) -> None:
    """An unused queue is kept for four to five poll caps, and goes with its last client."""
    assert 100_000 < redis_client.pttl(QUEUE) <= 150_000
    child.kill()
    holder.release()
    assert not redis_client.exists(QUEUE)


class Old:
    """A client like Redisson: it hears one channel, and then asks."""

    def __init__(self, redis_client: redis.Redis, kind: str) -> None:
        self._redis = redis_client
        self._channel = channel_of(kind)
        self._acquire, self._release = OLD_WRITER if kind == "write_lock" else OLD
        self.turns: list[float] = []

    def work(self, over: threading.Event) -> None:
        """Take the lock again and again until *over* is set."""
        with self._redis.pubsub(ignore_subscribe_messages=True) as ears:
            ears.subscribe(self._channel)
            while not over.is_set():
                began = time.monotonic()
                while not self._take():
                    ears.get_message(timeout=2)
                self.turns.append(time.monotonic() - began)
                self._redis.ping()
                self._redis.eval(self._release, 1, "name", self._channel)

    def _take(self) -> bool:
        return bool(self._redis.eval(self._acquire, 1, "name"))


OLD_ACQUIRE = """
if redis.call('exists', KEYS[1]) == 1 then return 0 end
redis.call('hset', KEYS[1], '2f5ca6ef-60f2-4fd7-9a8c-5ad1e9f8a0ff:38', 1)
redis.call('pexpire', KEYS[1], 30000)
return 1
"""
OLD_RELEASE = """
redis.call('del', KEYS[1])
redis.call('publish', ARGV[1], '0')
"""
OLD = OLD_ACQUIRE, OLD_RELEASE
OLD_WRITER = (
    OLD_ACQUIRE.replace(", '2f", ", 'mode', 'write', '2f").replace(":38'", ":38:write'"),
    OLD_RELEASE.replace("'0'", "'1'"),
)
"""What those do to a lock, and to a read/write lock."""


def test_old_and_new_have_their_turns(redis_url: str, redis_client: redis.Redis, kind: str) -> None:
    """Beside clients that stand in no queue all get the lock, and nobody has to poll."""
    over = threading.Event()

    def work(client: interlock.Client, mine: list[float]) -> None:
        lock = lock_of(client, kind)
        while not over.is_set():
            began = time.monotonic()
            lock.acquire()
            mine.append(time.monotonic() - began)
            client.lock("other").locked()
            lock.release()

    old = Old(redis_client, kind)
    clients = [interlock.connect(redis_url, poll_cap=30) for _ in range(3)]
    with ThreadPoolExecutor(4) as pool:
        turns: list[list[float]] = [[] for _ in clients]
        done = [pool.submit(work, *each) for each in zip(clients, turns, strict=True)]
        done.append(pool.submit(old.work, over))
        everybody = (*turns, old.turns)
        try:
            wait_until(lambda: all(len(each) > 50 for each in everybody), 20, "all have turns")
        finally:
            over.set()
        for each in done:
            each.result(20)
    for client in clients:
        client.close()
    assert all(max(each) < PROMPT for each in everybody)


def test_who_only_looks_has_a_chance(redis_url: str, kind: str, holder: Any) -> None:
    """A lock that others pass to each other all the time is left free now and then."""
    holder.release()
    ends = threading.Event()

    def work(client: interlock.Client) -> None:
        lock = lock_of(client, kind)
        while not ends.is_set():
            with lock:
                client.lock("other").locked()

    with (
        interlock.connect(redis_url) as one,
        interlock.connect(redis_url) as two,
        interlock.connect(redis_url, pubsub="off", poll_cap=0.01) as three,
        ThreadPoolExecutor(3) as pool,
    ):
        working = [pool.submit(work, client) for client in (one, two)]
        try:
            if kind == "write_lock":
                looks = lock_of(three, kind)
            else:
                looks = three.spin_lock("name", backoff=interlock.ConstantBackoff(0.01))
            assert looks.acquire(timeout=15)
            looks.release()
        finally:
            ends.set()
        for each in working:
            each.result(10)


def test_who_may_not_hear_of_its_turn_hears_of_all(
    fresh_server: RedisServer, kind: str, caplog: pytest.LogCaptureFixture
) -> None:
    """A user without the rights to the queue waits without one, is told, and logs it once."""
    fresh_server.execute("ACL", "SETUSER", "app", "reset", *EARLIER.split())
    url = fresh_server.url(0, "app", "secret")
    with (
        interlock.connect(url, poll_cap=30, card=False) as one,
        interlock.connect(url, poll_cap=30, card=False) as two,
        ThreadPoolExecutor(1) as pool,
        fresh_server.client() as server,
    ):
        mine, theirs = (lock_of(client, kind) for client in (one, two))
        mine.acquire()
        waiting = pool.submit(theirs.acquire)
        wait_until(lambda: server.pubsub_numsub(channel_of(kind))[0][1] == 1, 5, "it hears")
        wait_until(resting(two), 10, "it has looked after that")
        wait_until(lambda: caplog.records, 10, "it has told")
        mine.release()
        assert waiting.result(PROMPT)
        theirs.release()
        assert not server.exists(QUEUE)
        told = [record.__dict__.get("event") for record in caplog.records]
        assert told.count("queue.refused") == 1


EARLIER = (
    "on >secret resetkeys ~name ~redisson_lock_token:{name} resetchannels"
    " &redisson_lock__channel:{name} &redisson_rwlock:{name} -@all +evalsha +eval +del +exists"
    " +get +hdel +hexists +hgetall +hlen +hmget +hset +incrby +pexpire +pttl +publish +subscribe"
    " +unsubscribe +ping"
)


def test_what_was_left_free_is_not_a_newcomers(redis_client: redis.Redis) -> None:
    """A client that comes when the lock is left to others stands in the queue first."""

    def ask() -> object:
        call = lock_acquire("name", 30, "me:1", 1)
        stand_in_queue(call, "me", queue=QUEUE, others_wait=False, keep=10)
        return redis_client.eval(call.script.text, len(call.keys), *call.keys, *call.args)

    redis_client.zadd(QUEUE, {"first": 1})
    assert ask() == 20
    assert redis_client.zrange(QUEUE, 0, -1) == [b"first", b"me"]
    assert ask() is None
    assert redis_client.zrange(QUEUE, 0, -1) == [b"first"]
    assert redis_client.hgetall("name") == {b"me:1": b"1"}


def test_who_has_no_place_takes_a_free_lock(redis_client: redis.Redis) -> None:
    """A single try, and a client that has not waited just before, send nothing about the queue."""
    redis_client.zadd(QUEUE, {"first": 1})
    call = lock_acquire("name", 30, "me:1", 1)
    assert call.keys == ("name",)
    assert redis_client.eval(call.script.text, 1, *call.keys, *call.args) is None
    assert redis_client.hgetall("name") == {b"me:1": b"1"}
    assert redis_client.zrange(QUEUE, 0, -1) == [b"first"]


def test_a_forced_release_is_for_all(redis_client: redis.Redis) -> None:
    """A forced release does not look at the queue: it tells everybody, and frees the lock."""
    redis_client.hset("name", "me:1", 1)
    redis_client.zadd(QUEUE, {"first": 1})
    with redis_client.pubsub(ignore_subscribe_messages=True) as ears:
        ears.subscribe(CHANNEL)
        wait_until(lambda: redis_client.pubsub_numsub(CHANNEL)[0][1] == 1, 5, "it listens")
        _ = ears.get_message(timeout=5)
        call = lock_force_release("name", "PUBLISH", CHANNEL)
        assert redis_client.eval(call.script.text, len(call.keys), *call.keys, *call.args) == 1
        wait_until(lambda: (ears.get_message(timeout=1) or {}).get("data") == b"0", 10, "all hear")
    assert not redis_client.exists("name")
    assert redis_client.zrange(QUEUE, 0, -1) == [b"first"]


def test_newcomers_take_no_turn_from_who_only_looks(redis_client: redis.Redis) -> None:
    """One release in two seconds leaves the lock free, however many clients come meanwhile."""
    wake, now = "interlock_wake:{name}:first", 1_800_000_000
    stopped = f"{{{now + 1}, 0}}"

    def release(ears: redis.client.PubSub) -> object:
        redis_client.hset("name", "me:1", 1)
        call = lock_release("name", "me:1", 0, "PUBLISH", CHANNEL)
        text = call.script.text.replace("redis.pcall('time')", stopped)
        assert text != call.script.text
        assert redis_client.eval(text, len(call.keys), *call.keys, *call.args) == 3
        message = ears.get_message(timeout=5)
        return None if message is None else message["data"]

    with redis_client.pubsub(ignore_subscribe_messages=True) as ears:
        ears.subscribe(wake)
        wait_until(lambda: redis_client.pubsub_numsub(wake)[0][1] == 1, 5, "it listens")
        _ = ears.get_message(timeout=5)
        redis_client.zadd(QUEUE, {"first": 1, "newcomer": now * 1000 + 500})
        assert release(ears) == b"20"
        assert not redis_client.exists("name")
        redis_client.zadd(QUEUE, {"another": now * 1000 + 1500})
        assert release(ears) == b"0"
        assert redis_client.hgetall("name") == {b"first:0": b"1"}


def test_a_claim_is_taken_once(redis_client: redis.Redis) -> None:
    """A claim becomes one hold of the client, and a second one is refused."""

    def ask(number: int) -> object:
        call = lock_acquire("name", 30, f"me:{number}", 1)
        stand_in_queue(call, "me", queue=QUEUE, others_wait=False, keep=10)
        return redis_client.eval(call.script.text, len(call.keys), *call.keys, *call.args)

    redis_client.hset("name", "me:0", 1)
    redis_client.pexpire("name", 250)
    assert ask(1) is None
    assert ask(1) is None, "sent twice"
    assert isinstance(ask(2), int)
    assert redis_client.hgetall("name") == {b"me:1": b"1"}
    assert redis_client.pttl("name") > 20_000
